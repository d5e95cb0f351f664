"""The task of an at-least-once sink: writes its rows straight to their topics.

Rows are visible as soon as they are written. A task that Spark runs again, because it failed or
seemed slow, writes its rows again; so does a batch that is replayed.
"""

import math
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, cast

import pyarrow as pa

from headrace.client.network.pool import ConnectionPool
from headrace.client.write.writer import Writer
from headrace.spark.sink.column import SinkColumns
from headrace.spark.sink.kept_client import KeptClients
from headrace.spark.sink.option import SinkOptions
from headrace.spark.sink.task_output import TaskOutput
from headrace.spark.sink.topic import find_topic
from headrace.spark.worker_memory import freeze_modules

_SEEN_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class AtLeastOnceTask:
    """Writes the rows of one task to their topics."""

    options: SinkOptions
    columns: SinkColumns

    def run(self, rows: Iterator[pa.RecordBatch]) -> TaskOutput:
        """Write rows, and return when the brokers have acknowledged them.

        Raises:
            ClientError: a topic does not exist, or rows could not be written.
            InvalidArgument: rows that cannot become records.
        """
        record_count = 0
        key = self._key()
        kept = _WRITERS.take(key) or _KeptWriter(self._writer)
        try:
            with ConnectionPool(self.options.settings) as pool:
                for batch in rows:
                    for topic, records in self.columns.split(batch):
                        kept.find(pool, topic)
                        kept.writer.write(records, topic)
                    record_count += batch.num_rows
            kept.writer.rest()
        except BaseException:
            kept.writer.abandon()
            raise
        _WRITERS.keep(key, kept)
        freeze_modules()
        return TaskOutput(record_count=record_count)

    def _writer(self) -> Writer:
        options = self.options
        return Writer(
            options.settings,
            acks=cast(Literal["all", "1", "0"], options.acks),
            idempotent=options.acks == "all",
            codec=options.codec,
            batch_bytes=options.batch_bytes,
        )

    def _key(self) -> Hashable:
        """Return what two tasks must share to use the same writer."""
        options = self.options
        client = frozenset(options.client.items())
        return client, options.acks, options.codec, options.batch_bytes


class _KeptWriter:
    """A writer, and what it relies on: when its topics were last seen, with how many partitions.

    A topic may be deleted and created again while a stream runs, with other partitions. The writer
    would learn of it only after metadata.max.age.ms.
    """

    def __init__(self, make: Callable[[], Writer]) -> None:
        self.writer = make()
        self._make = make
        self._seen: dict[str, tuple[float, int]] = {}

    def find(self, pool: ConnectionPool, topic: str) -> None:
        """Check that a topic exists, or let the broker create it; at most once per second."""
        now = time.monotonic()
        seen_at, partitions = self._seen.get(topic, (-math.inf, None))
        if now - seen_at <= _SEEN_SECONDS:
            return
        found = len(find_topic(pool, topic).partitions)
        if partitions not in (None, found):
            self.writer.close()
            self.writer = self._make()
        self._seen[topic] = now, found


_WRITERS: Final[KeptClients[_KeptWriter]] = KeptClients()
