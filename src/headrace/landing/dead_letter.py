"""The table of records that are no rows of the main one: their bytes, their place, and why."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.client.read.chunk import Chunk
from headrace.landing.row.decoded import TIME, DecodedRows, partition_column, times_in_range
from headrace.landing.row.raw import RAW
from headrace.landing.source import Source

DEAD_LETTER: Final = RAW.append(pa.field("reason", pa.string(), nullable=False)).set(
    RAW.get_field_index("timestamp"), RAW.field("timestamp").with_nullable(True)
)
"""The columns of a table of dead letters."""


def dead_letters(chunk: Chunk, decoded: DecodedRows) -> pa.RecordBatch | None:
    """Return the bad records of a chunk as rows; None if there are none."""
    if not decoded.bad:
        return None
    at = pa.array([each for each, _ in decoded.bad], pa.int64())
    columns = chunk.columns.take(at)
    times = columns.column("timestamp")
    fits = times_in_range(times)
    if fits is not None:
        times = pc.if_else(fits, times, pa.scalar(None, times.type))
    arrays = {
        "key": columns.column("key"),
        "value": columns.column("value"),
        "headers": columns.column("headers"),
        "partition": partition_column(chunk, len(at)),
        "offset": columns.column("offset"),
        "timestamp": times.cast(TIME),
        "reason": pa.array([reason for _, reason in decoded.bad], pa.string()),
    }
    return pa.RecordBatch.from_arrays(
        [arrays[each] for each in DEAD_LETTER.names], schema=DEAD_LETTER
    )


def not_written_yet(rows: pa.RecordBatch, offsets: Mapping[int, int]) -> pa.RecordBatch:
    """Return the rows that a table at these offsets lacks. All rows are of one partition."""
    start = offsets.get(rows.column("partition")[0].as_py(), 0)
    return rows.filter(pc.greater_equal(rows.column("offset"), start))


def dead_letter_source(source: Source) -> Source:
    """Return the source of the table of dead letters."""
    return Source(topic=source.topic, topic_id=source.topic_id, values="dead letters")
