"""Records for topics, in the columns that the Spark sink reads."""

import pyarrow as pa

from headrace.flow.plan.fields import Fields

RECORDS = "records"
"""The stream that every sink emits to."""

RECORD_FIELDS = Fields.parse(
    "topic STRING, key BINARY, value BINARY,"
    " headers ARRAY<STRUCT<key: STRING, value: BINARY>>, partition INT"
)


def records(
    topic: str,
    *,
    value: pa.Array,
    key: pa.Array | None = None,
    headers: pa.Array | None = None,
    partition: pa.Array | None = None,
) -> pa.RecordBatch:
    """Return a batch of records for one topic; a column that is None is null."""
    schema = RECORD_FIELDS.schema
    count = len(value)

    def column(name: str, given: pa.Array | None) -> pa.Array:
        kind = schema.field(name).type
        if given is None:
            return pa.nulls(count, kind)
        return given if given.type == kind else given.cast(kind)

    arrays = [
        pa.repeat(pa.scalar(topic, pa.string()), count),
        column("key", key),
        column("value", value),
        column("headers", headers),
        column("partition", partition),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
