"""Rows of bytes: a record as it is in the log."""

from typing import Final

import pyarrow as pa

from headrace.client.read.chunk import Chunk
from headrace.landing.error import LandingError
from headrace.landing.row.decoded import TIME, DecodedRows, partition_column, timed_records
from headrace.records.column import HEADERS

RAW: Final = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", TIME, nullable=False),
    ]
)
"""The columns of a table of bytes."""


class RawDecoder:
    """Keeps keys, values and headers as they are."""

    columns = RAW

    def use(self, columns: pa.Schema) -> None:
        if columns.names != RAW.names:
            raise LandingError(
                f"the table has the columns {', '.join(columns.names)}, which are not those of raw "
                "records: name another table"
            )

    def decode(self, chunk: Chunk) -> DecodedRows:
        records = timed_records(chunk)
        columns = records.columns
        arrays = [
            columns.column("key"),
            columns.column("value"),
            columns.column("headers"),
            partition_column(chunk, columns.num_rows),
            columns.column("offset"),
            columns.column("timestamp"),
        ]
        return DecodedRows(pa.RecordBatch.from_arrays(arrays, schema=RAW), bad=records.bad)
