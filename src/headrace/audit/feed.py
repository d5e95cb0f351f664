"""The audit topic as it is written."""

from typing import Final

from headrace.audit.record import TOPIC, AuditRecord
from headrace.client.error import BrokerError, ClientError
from headrace.client.read.read_range import LogEdge, Moment
from headrace.client.read.reader import Reader
from headrace.client.settings import ClientSettings
from headrace.wire.error_code import ErrorCode

_MOST_AT_ONCE: Final = 100_000
_IN_FLIGHT_BYTES: Final = 4 * 1024 * 1024


class AuditFeed:
    """Reads the topic from some time on. For one thread."""

    def __init__(self, settings: ClientSettings, since_ms: int, topic: str = TOPIC) -> None:
        self._settings = settings
        self._since_ms = since_ms
        self._topic = topic
        self._reader: Reader | None = None

    def take(self, wait_seconds: float = 0.0) -> list[AuditRecord]:
        """Return what was written since the last call; nothing while there is no such topic.

        Raises:
            ClientError: the topic cannot be read; the next call tries again.
        """
        records: list[AuditRecord] = []
        try:
            reader = self._open()
            while reader is not None and len(records) < _MOST_AT_ONCE:
                chunk = reader.poll(0.0 if records else wait_seconds)
                if chunk is None:
                    break
                values = chunk.columns.column("value").to_pylist()
                records += [each for value in values if (each := AuditRecord.decode(value))]
        except ClientError:
            self.close()
            raise
        return records

    def _open(self) -> Reader | None:
        if self._reader is None:
            try:
                self._reader = Reader.of_topics(
                    self._settings,
                    self._topic,
                    start=Moment(self._since_ms),
                    follow=True,
                    columns=["value"],
                    max_bytes_in_flight=_IN_FLIGHT_BYTES,
                    reset=LogEdge.EARLIEST,
                )
            except BrokerError as error:
                if error.code is ErrorCode.unknown_topic_or_partition:
                    return None
                raise
        return self._reader

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def read_audit(settings: ClientSettings, since_ms: int, topic: str = TOPIC) -> list[AuditRecord]:
    """Return everything in the topic from some time on up to now.

    Raises:
        BrokerError: there is no such topic.
    """
    with Reader.of_topics(
        settings, topic, start=Moment(since_ms), columns=["value"], reset=LogEdge.EARLIEST
    ) as reader:
        return [
            each
            for chunk in reader
            for value in chunk.columns.column("value").to_pylist()
            if (each := AuditRecord.decode(value))
        ]
