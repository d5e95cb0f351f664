"""What every part of an agent has in common."""

from typing import ClassVar

from headrace.ingest.counter import Counters
from headrace.ingest.settings import Setting, Settings


class Component:
    """A named part with settings and a life: made, started, stopped.

    To implement: `SETTINGS`, and `start` and `stop` where there is something to open and close.

    `__init__` reads settings and raises `ConfigError` for what cannot be meant; it opens nothing,
    because `headrace agent check` makes components too. `start` may raise; the agent says so and
    tries again with growing pauses. `stop` is called once for every `start` that succeeded, from
    another thread than the one that works, and must make that one return soon.
    """

    SETTINGS: ClassVar[tuple[Setting, ...]] = ()
    # Kinds of counters that exist from the start, so that a monitor shows zeros too.
    COUNTERS: ClassVar[tuple[str, ...]] = ()
    # Whose part it is; known from when the agent has put it together.
    agent: str = ""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self.settings = settings
        self.counters = Counters(self.COUNTERS)

    def start(self) -> None:
        """Open what is needed."""

    def stop(self) -> None:
        """Let go of it."""
