"""The columns of records in files, whatever the format of the file."""

from typing import Final

import pyarrow as pa

from headrace.model.ids import TopicPartition
from headrace.records.column import HEADERS, TIMESTAMP

SCHEMA: Final = pa.schema(
    [
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", TIMESTAMP, nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS, nullable=False),
    ]
)

COLUMNS: Final = ("key", "value", "headers", "timestamp", "partition")
"""The columns of a file that an import writes to a topic."""


def with_partition(partition: TopicPartition, columns: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns of `SCHEMA`: the given ones, and the number of the partition."""
    numbers = pa.repeat(pa.scalar(partition.partition, pa.int32()), columns.num_rows)
    arrays = [numbers, *(columns.column(name) for name in SCHEMA.names[1:])]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
