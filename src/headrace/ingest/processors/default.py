"""The processor of a single sink."""

from collections.abc import Sequence

from headrace.ingest.settings import Settings
from headrace.ingest.sink import Sink, Status
from headrace.ingest.sink_processor import SinkProcessor
from headrace.model.error import ConfigError


class DefaultSinkProcessor(SinkProcessor):
    """Runs one sink, which is in no group."""

    def __init__(self, name: str, settings: Settings, sinks: Sequence[Sink]) -> None:
        super().__init__(name, settings, sinks)
        if len(sinks) != 1:
            raise ConfigError(
                f"the default processor runs one sink, and group {name} has {len(sinks)}: "
                "write processor.type = failover or load_balance"
            )

    def process(self) -> Status:
        return self.sinks[0].process()
