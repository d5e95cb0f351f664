"""The task of an at-least-once sink: writes its rows straight to their topics.

Rows are visible as soon as they are written. A task that Spark runs again, because it failed or
seemed slow, writes its rows again; so does a batch that is replayed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast

import pyarrow as pa

from headrace.client.network.pool import ConnectionPool
from headrace.client.write.writer import Writer
from headrace.spark.sink.column import SinkColumns
from headrace.spark.sink.option import SinkOptions
from headrace.spark.sink.task_output import TaskOutput
from headrace.spark.sink.topic import find_topic
from headrace.spark.worker_memory import freeze_modules


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
        options = self.options
        record_count = 0
        known: set[str] = set()
        with (
            ConnectionPool(options.settings) as pool,
            Writer(
                options.settings,
                acks=cast(Literal["all", "1", "0"], options.acks),
                idempotent=options.acks == "all",
                codec=options.codec,
                batch_bytes=options.batch_bytes,
            ) as writer,
        ):
            for batch in rows:
                for topic, records in self.columns.split(batch):
                    if topic not in known:
                        find_topic(pool, topic)
                        known.add(topic)
                    writer.write(records, topic)
                record_count += batch.num_rows
        freeze_modules()
        return TaskOutput(record_count=record_count)
