"""The serdes of the streams that a job writes to."""

from headrace.flow.error import Unrecoverable
from headrace.flow.samza.config import JobConfig
from headrace.flow.samza.envelope import SystemStream
from headrace.flow.samza.serde import Serde


class StreamSerdes:
    """A function of a stream: its serdes for keys and messages."""

    def __init__(self, config: JobConfig) -> None:
        self._config = config
        self._known: dict[SystemStream, tuple[Serde, Serde]] = {}

    def __call__(self, stream: SystemStream) -> tuple[Serde, Serde]:
        serdes = self._known.get(stream)
        if serdes is None:
            serdes = self._known[stream] = self._find(stream)
        return serdes

    def _find(self, stream: SystemStream) -> tuple[Serde, Serde]:
        brokers = self._config.brokers
        if stream.system not in brokers:
            raise Unrecoverable(
                f"a message was sent to {stream}, but there is no system {stream.system!r}: there"
                f" are {', '.join(brokers)}"
            )
        if brokers[stream.system] != brokers[self._config.target]:
            raise Unrecoverable(
                f"a message was sent to {stream}, but the job writes to {self._config.target}: what"
                " a batch writes is one transaction of one cluster; use a mirror"
            )
        serdes = self._config.serdes
        return serdes.get(str(stream)) or serdes[stream.system]
