"""Records whose value cannot be decoded, written to a topic of their own (`deadLetterTopic`).

A letter is the record as it was, key and value, with headers that say why and where it came from,
as in the dead letters of flows. Crash: a task that Spark runs again writes its letters again, so
that each is there at least once.
"""

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from headrace.client.settings import ClientSettings
from headrace.model.ids import TopicPartition
from headrace.spark.value.decoded import RowNumbers, ValueDecoder
from headrace.spark.value.error import BadValue
from headrace.wire.error_code import ErrorCode

if TYPE_CHECKING:
    from headrace.client.write.writer import Writer

NEEDED: Final = ("key", "value", "offset", "timestamp")
"""Columns of records that letters are made of."""

_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_MAX_ERROR_CHARACTERS: Final = 2_000


class DeadLetters:
    """The letters of one task. It connects when the first one is there.

    Args:
        explain: decodes a column with one bad value and raises `BadValue`, which says why.
    """

    def __init__(
        self, topic: str, settings: ClientSettings, partition: TopicPartition, explain: ValueDecoder
    ) -> None:
        self._topic = topic
        self._settings = settings
        self._partition = partition
        self._explain = explain
        self._writer: Writer | None = None

    def write(self, records: pa.RecordBatch, rows: RowNumbers) -> None:
        """Write the records of some rows, whose values could not be decoded.

        Raises:
            ClientError: they cannot be written.
        """
        if not len(rows):
            return
        letters = records.take(pa.array(rows))
        names = [name for name in ("key", "value", "timestamp") if name in letters.schema.names]
        table = pa.table({name: letters.column(name) for name in names})
        headers = pa.array([self._headers(letters, row) for row in range(len(letters))], _HEADERS)
        self._open().write(table.append_column("headers", headers), self._topic)

    def finish(self) -> None:
        """Return when all letters are written.

        Raises:
            ClientError: they cannot be written.
        """
        if self._writer is not None:
            self._writer.close()

    def abandon(self) -> None:
        if self._writer is not None:
            self._writer.abandon()

    def _headers(self, letters: pa.RecordBatch, row: int) -> list[dict[str, Any]]:
        try:
            self._explain.decode(letters.column("value").slice(row, 1))
            why = "it is null"
        except BadValue as error:
            why = str(error)[:_MAX_ERROR_CHARACTERS]
        found = {
            "error": why,
            "topic": self._partition.topic,
            "partition": self._partition.partition,
            "offset": letters.column("offset")[row].as_py(),
        }
        return [{"key": name, "value": str(each).encode()} for name, each in found.items()]

    def _open(self) -> "Writer":
        if self._writer is None:
            from headrace.client.admin.admin import Admin, NewTopic
            from headrace.client.network.pool import ConnectionPool
            from headrace.client.write.writer import Writer

            with ConnectionPool(self._settings) as pool:
                for error in Admin(pool).create_topics([NewTopic(self._topic, -1)]).values():
                    if error is not None and error.code is not ErrorCode.topic_already_exists:
                        raise error
            self._writer = Writer(self._settings)
        return self._writer
