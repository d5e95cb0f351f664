"""The schema of the source: the connector's columns and types."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headrace.model.error import ConfigError
from headrace.spark.value.format import ValueFormat

SCHEMA_ID: Final = "headrace.schema.id"
"""Metadata of a column: the id of the schema that its type was made of."""

_FIXED: Final[Mapping[str, str]] = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP_LTZ",
    "timestampType": "INT",
    "headers": "ARRAY<STRUCT<`key`: STRING, `value`: BINARY>>",
}


def source_ddl(
    *, headers: bool, value: str, key: str = "BINARY", corrupt_column: str | None = None
) -> str:
    """Return the schema of the source as Spark's DDL, with the types of two columns.

    The time is TIMESTAMP_LTZ: the meaning of TIMESTAMP depends on spark.sql.timestampType.
    """
    types = {**_FIXED, "key": key, "value": value}
    if not headers:
        del types["headers"]
    if corrupt_column is not None:
        types[corrupt_column.replace("`", "``")] = "BINARY"
    return ", ".join(f"`{name}` {kind}" for name, kind in types.items())


def source_type(
    *, headers: bool, key: ValueFormat, value: ValueFormat, corrupt_column: str | None = None
) -> StructType:
    """Return the schema of a source whose keys or values have theirs in a registry.

    The column's metadata has the id of the schema, so that every task of the read has the same.

    Raises:
        ConfigError: a subject has no schema, or one that Spark has no type for.
        RegistryUnreachable: no registry answers.
    """
    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    fields = [
        _registry_field("key", key),
        _registry_field("value", value),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    if headers:
        fields.append(StructField("headers", ArrayType(header)))
    if corrupt_column is not None:
        fields.append(StructField(corrupt_column, BinaryType()))
    return StructType(fields)


def _registry_field(name: str, value_format: ValueFormat) -> StructField:
    options = value_format.registry
    if options is None:
        kind: DataType = StringType() if value_format.name == "string" else BinaryType()
        return StructField(name, kind)
    from headrace.spark.value.registry.client import reader_schema
    from headrace.spark.value.registry.column import spark_type

    schema = reader_schema(options)
    kind = spark_type(schema, options.message)
    return StructField(name, kind, metadata={SCHEMA_ID: schema.id})


def pinned_format(value_format: ValueFormat, schema: StructType, name: str) -> ValueFormat:
    """Return a format with the schema that a column was made of, the latest one if a user gives
    the type."""
    options = value_format.registry
    if options is None or name not in schema.names:
        return value_format
    schema_id = schema[name].metadata.get(SCHEMA_ID)
    if schema_id is None:
        from headrace.spark.value.registry.client import reader_schema

        schema_id = reader_schema(options).id
    return replace(value_format, registry=options.pinned(int(schema_id)))


def check_corrupt_column(name: str) -> None:
    """Check the name of the column for values that cannot be decoded.

    Raises:
        ConfigError: the source has a column of this name.
    """
    if not name or name.lower() in (each.lower() for each in _FIXED):
        raise ConfigError(
            f"option columnNameOfCorruptRecord cannot be {name!r}: write a name that no column of "
            "the source has, as in _corrupt_record"
        )


def check_columns(schema: StructType, *, headers: bool, corrupt_column: str | None = None) -> None:
    """Check a schema that a user gives. It may leave out columns, which then cost nothing.

    Raises:
        ConfigError: it has a column that the source does not have.
    """
    names = schema.names
    for name in names:
        if name == corrupt_column:
            if not isinstance(schema[name].dataType, BinaryType):
                raise ConfigError(
                    f"declare the column {name} as BINARY in the schema: a value that cannot be "
                    "decoded may not be text"
                )
            if "value" not in names:
                raise ConfigError(
                    f"the column {name} needs the column value in the schema: which values are "
                    "corrupt depends on its type"
                )
        elif name not in _FIXED:
            raise ConfigError(
                f"the source headrace has no column {name}: "
                f"a schema may leave out some of {', '.join(_FIXED)}, but not add to them"
            )
        if name == "headers" and not headers:
            raise ConfigError("for the column headers set the option includeHeaders to true")
