"""Streams whose values have their schema in a registry."""

from dataclasses import replace
from typing import Any

from headrace.flow.sql.catalog import StreamDefinition
from headrace.model.error import ConfigError
from headrace.spark.value.format import type_ddl
from headrace.spark.value.registry.option import RegistryFormat


def value_options(stream: StreamDefinition) -> dict[str, str]:
    """Return the options by which Spark's source or sink decodes or encodes values."""
    found = {
        "valueformat": stream.format,
        "valuesubject": subject_of(stream),
        **dict(stream.registry),
    }
    return {**found, "valuemessage": stream.message} if stream.message else found


def subject_of(stream: StreamDefinition) -> str:
    return stream.subject or f"{stream.topic}-value"


def writing_options(stream: StreamDefinition, *, declared_by_query: bool) -> dict[str, str]:
    """Return the options of a write: by the subject's latest schema, or by one to register.

    A query that declares its stream registers the schema of its columns; so does the first one that
    fills a stream whose subject has none.

    Args:
        declared_by_query: the stream is made by CREATE STREAM AS.

    Raises:
        RegistryUnreachable: no registry answers.
    """
    options = value_options(stream)
    if stream.schema is not None:
        return {**options, "valueschemaregister": "true", "valueschema": stream.schema}
    if stream.format == "avro" and (declared_by_query or not _has_schema(stream)):
        return {**options, "valueschemaregister": "true"}
    return options


def inferred(stream: StreamDefinition) -> StreamDefinition:
    """Return a stream with the columns of its latest schema, unless it declares its own.

    Raises:
        ConfigError: there is no schema, it is of another format, or its values are no records.
        RegistryError: the registry refuses the request.
        RegistryUnreachable: no registry answers.
    """
    if not stream.registry or stream.value_columns:
        return stream
    from pyspark.sql.types import StructType

    from headrace.spark.value.registry.client import reader_schema
    from headrace.spark.value.registry.column import spark_type

    kind = spark_type(reader_schema(_format(stream)), stream.message)
    if not isinstance(kind, StructType):
        raise ConfigError(
            f"the values of {subject_of(stream)} are no records but {kind.simpleString()}, "
            "which SQL has no columns for"
        )
    columns = tuple((each.name, column_ddl(each.dataType), None) for each in kind)
    return replace(stream, columns=(*stream.columns, *columns))


def column_ddl(kind: Any) -> str:
    """Return a column's type: names inside keep their letters."""
    text = type_ddl(kind)
    return text if "`" in text else text.upper()


def _has_schema(stream: StreamDefinition) -> bool:
    from headrace.spark.value.registry.client import reader_schema

    try:
        reader_schema(_format(stream))
    except ConfigError:
        return False
    return True


def _format(stream: StreamDefinition) -> RegistryFormat:
    return RegistryFormat(
        side="value",
        format=stream.format,
        subject=subject_of(stream),
        message=stream.message,
        registry=stream.registry,
    )
