"""The base class of sink processors, which choose the sink of a group."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

from headrace.ingest.component import Component
from headrace.ingest.settings import Settings
from headrace.ingest.sink import Sink, Status


class SinkProcessor(Component, ABC):
    """Runs the sinks of a group, in one thread.

    To implement: `process`. A configuration names it as `processor.type = module:Class`.
    """

    def __init__(self, name: str, settings: Settings, sinks: Sequence[Sink]) -> None:
        super().__init__(name, settings)
        self.sinks = sinks

    @abstractmethod
    def process(self) -> Status:
        """Call `process` of one sink; if that fails, of another one, or raise."""
