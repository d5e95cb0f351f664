"""The base class of every component of an agent."""

from typing import ClassVar

from headrace.ingest.counter import Counters
from headrace.ingest.settings import Setting, Settings


class Component:
    """A component with a name and settings, which the agent creates, starts and stops.

    To implement: `SETTINGS`, and `start` and `stop` if there is something to open and close.

    `__init__` reads the settings and raises `ConfigError` for a value that cannot be used. It opens
    nothing, because `headrace agent check` creates components too. `start` may raise: the agent
    logs the error and retries with growing pauses. `stop` is called once for every `start` that
    succeeded, from another thread than the working one, which it must make return soon.
    """

    SETTINGS: ClassVar[tuple[Setting, ...]] = ()
    # Counters that exist from the start, so that a monitor shows zeros too.
    COUNTERS: ClassVar[tuple[str, ...]] = ()
    # The name of the agent; set when the agent is assembled.
    agent: str = ""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self.settings = settings
        self.counters = Counters(self.COUNTERS)

    def start(self) -> None:
        """Open files, sockets and connections."""

    def stop(self) -> None:
        """Close what `start` opened."""
