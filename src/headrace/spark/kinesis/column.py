"""The columns of the source: the names and types of AWS's own connector."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from headrace.model.error import ConfigError

SOURCE_DDL: Final = (
    "`data` BINARY, `streamName` STRING, `partitionKey` STRING, `sequenceNumber` STRING,"
    " `approximateArrivalTimestamp` TIMESTAMP_LTZ"
)
"""The schema of the source. The time is LTZ: TIMESTAMP depends on spark.sql.timestampType."""

_FIELDS: Final = {
    "data": "Data",
    "partitionKey": "PartitionKey",
    "sequenceNumber": "SequenceNumber",
    "approximateArrivalTimestamp": "ApproximateArrivalTimestamp",
}
_NAMES: Final = (*_FIELDS, "streamName")


def check_columns(names: Sequence[str]) -> None:
    """Check a schema that a user gives. It may leave out columns.

    Raises:
        ConfigError: it has a column that the source does not have.
    """
    for name in names:
        if name not in _NAMES:
            raise ConfigError(
                f"the source kinesis has no column {name}: a schema may leave out some of"
                f" {', '.join(_NAMES)}, but not add to them"
            )


def source_batch(
    schema: pa.Schema, stream: str, records: Sequence[Mapping[str, Any]]
) -> pa.RecordBatch:
    """Return records as columns in the schema of the read."""
    if not schema.names:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * len(records), pa.struct([])))
    arrays = [_array(field, stream, records) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(field: pa.Field, stream: str, records: Sequence[Mapping[str, Any]]) -> pa.Array:
    if field.name == "streamName":
        return pa.repeat(pa.scalar(stream, field.type), len(records))
    # A record of a stream that ignores partition keys may have none.
    name = _FIELDS[field.name]
    return pa.array([each.get(name) for each in records], field.type)
