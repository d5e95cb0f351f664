"""Functions for columns of framed values, for any DataFrame: Spark's own Kafka connector's too.

They are Arrow UDFs: a whole column comes in and goes out, without a Python object per row between
Spark and the function. The registry's login travels inside the pickled function, not in the plan.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.model.error import ConfigError
from headrace.serde.registry_client_settings import URL
from headrace.spark.option_text import OptionText
from headrace.spark.value.registry.client import reader_schema
from headrace.spark.value.registry.column import spark_type
from headrace.spark.value.registry.decoder import RegistryDecoding
from headrace.spark.value.registry.encoder import RegistryEncoder
from headrace.spark.value.registry.option import RegistryFormat, read_registry_format

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType

Registry = Mapping[str, str] | str


def from_avro(
    column: "Column | str",
    registry: Registry,
    *,
    subject: str,
    version: int | None = None,
    mode: str = "PERMISSIVE",
) -> "Column":
    """Decode Avro values that name their schema, each by its own, to the subject's schema.

    Args:
        registry: the registry's URL, or `schema.registry.*` settings with a login.
        subject: whose latest schema, unless a version is given, the column's type is made of.
        mode: PERMISSIVE makes values null that cannot be decoded, FAILFAST fails the query.

    Raises:
        ConfigError: a setting is wrong, or the subject has no schema that Spark has a type for.
        RegistryUnreachable: no registry answers.

    Example:
        rows.select(from_avro("value", "http://127.0.0.1:8081", subject="clicks-value"))
    """
    return _decoded(column, _options("avro", registry, subject, version), mode)


def from_protobuf(
    column: "Column | str",
    registry: Registry,
    *,
    subject: str,
    version: int | None = None,
    message: str | None = None,
    mode: str = "PERMISSIVE",
) -> "Column":
    """Decode Protobuf values that name their schema; see `from_avro`.

    Args:
        message: the full name of the message; by default the first of the schema.
    """
    return _decoded(column, _options("protobuf", registry, subject, version, message), mode)


def from_json_schema(
    column: "Column | str",
    registry: Registry,
    *,
    subject: str,
    version: int | None = None,
    mode: str = "PERMISSIVE",
) -> "Column":
    """Decode JSON values that name their JSON Schema; see `from_avro`."""
    return _decoded(column, _options("json", registry, subject, version), mode)


def to_avro(
    column: "Column | str",
    registry: Registry,
    *,
    subject: str,
    version: int | None = None,
    register: bool = False,
    schema: str | None = None,
) -> "Column":
    """Encode a column as Avro values that name their schema.

    Args:
        subject: whose latest schema, unless a version is given, is written with.
        register: register `schema`, or one that follows from the column's type, and use it.

    Raises:
        ConfigError: a setting is wrong.

    Example:
        rows.select(to_avro(struct("*"), registry, subject="clicks-value").alias("value"))
    """
    return _encoded(column, _options("avro", registry, subject, version), register, schema)


def to_protobuf(
    column: "Column | str",
    registry: Registry,
    *,
    subject: str,
    version: int | None = None,
    message: str | None = None,
    register: bool = False,
    schema: str | None = None,
) -> "Column":
    """Encode a column as Protobuf values that name their schema; see `to_avro`."""
    options = _options("protobuf", registry, subject, version, message)
    return _encoded(column, options, register, schema)


def to_json_schema(
    column: "Column | str",
    registry: Registry,
    *,
    subject: str,
    version: int | None = None,
    register: bool = False,
    schema: str | None = None,
) -> "Column":
    """Encode a column as JSON values that name their JSON Schema; see `to_avro`."""
    return _encoded(column, _options("json", registry, subject, version), register, schema)


def _options(
    format_name: str,
    registry: Registry,
    subject: str,
    version: int | None,
    message: str | None = None,
) -> RegistryFormat:
    texts = {URL: registry} if isinstance(registry, str) else dict(registry)
    for name in texts:
        if not name.startswith("schema.registry."):
            raise ConfigError(f"a registry has no setting {name}: they begin with schema.registry.")
    if URL not in texts:
        raise ConfigError(f"{URL} is missing, as in {URL}=http://127.0.0.1:8081")
    texts["valueSubject"] = subject
    if version is not None:
        texts["valueVersion"] = str(version)
    if message is not None:
        texts["valueMessage"] = message
    found = read_registry_format(OptionText(texts), "value", format_name, None)
    assert found is not None
    return found


def _decoded(column: "Column | str", options: RegistryFormat, mode: str) -> "Column":
    from pyspark.sql.pandas.types import to_arrow_type

    if mode.upper() not in ("PERMISSIVE", "FAILFAST"):
        raise ConfigError(f"mode cannot be {mode!r}: write PERMISSIVE or FAILFAST")
    schema = reader_schema(options)
    pinned = options.pinned(schema.id)
    kind = spark_type(schema, options.message)
    fail_fast = mode.upper() == "FAILFAST"

    def decode(values: pa.Array) -> pa.Array:
        arrow = to_arrow_type(kind, timezone="UTC")
        return RegistryDecoding(pinned, arrow, fail_fast=fail_fast)(values)

    return _named(decode, f"from_{options.format}", kind)(column)


def _encoded(
    column: "Column | str", options: RegistryFormat, register: bool, schema: str | None
) -> "Column":
    from pyspark.sql.types import BinaryType

    if schema is not None and not register:
        raise ConfigError("a schema is registered only with register=True")
    if register and schema is None and options.format != "avro":
        raise ConfigError(f"register=True needs the text of a schema for {options.format}")
    if not register:
        options = options.pinned(reader_schema(options).id)
    encoder = RegistryEncoder(options, register, schema)

    def encode(values: pa.Array) -> pa.Array:
        return encoder(values)

    return _named(encode, f"to_{options.format}", BinaryType())(column)


def _named(function: Any, name: str, kind: "DataType") -> "Callable[[Column | str], Column]":
    """Return a UDF that plans show under this name."""
    # Spark's stubs lack `arrow_udf`.
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

    function.__name__ = function.__qualname__ = name
    made: Callable[[Column | str], Column] = arrow_udf(function, kind)
    return made
