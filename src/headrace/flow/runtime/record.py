"""What sinks make: records for topics, in the columns that Spark's sink takes."""

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
    """A batch of records for one topic; what is None is null."""
    schema = RECORD_FIELDS.schema
    count = len(value)

    def column(name: str, given: pa.Array | None) -> pa.Array:
        wanted = schema.field(name).type
        if given is None:
            return pa.nulls(count, wanted)
        return given if given.type == wanted else given.cast(wanted)

    arrays = [
        pa.repeat(pa.scalar(topic, pa.string()), count),
        column("key", key),
        column("value", value),
        column("headers", headers),
        column("partition", partition),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
