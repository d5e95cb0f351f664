"""How the bytes of values become columns: `valueFormat`, `valueSchema`, `valueMode`.

Read on the driver when a user calls `load()`; tasks work with `headrace.spark.value.decoder`.
"""

import json
from dataclasses import dataclass
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from headrace.model.error import ConfigError
from headrace.spark.value.registry.option import RegistryFormat

VALUE_FORMATS: Final = ("raw", "string", "json", "csv", "avro", "protobuf")
KEY_FORMATS: Final = ("raw", "string", "avro", "protobuf", "json")
VALUE_MODES: Final = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """The value options of one read. The schema is a text, which is parsed where Spark is.

    Attributes:
        registry: where the schemas come from, if values name theirs.
    """

    name: str
    schema: str | None
    fail_fast: bool
    registry: RegistryFormat | None = None

    @classmethod
    def of(
        cls, name: str, schema: str | None, mode: str, registry: RegistryFormat | None = None
    ) -> "ValueFormat":
        """Check that format and schema fit together.

        Raises:
            ConfigError: a format without its schema, or a schema without a format.
        """
        if registry is not None:
            if schema is not None:
                raise ConfigError(
                    "the schema comes from the registry: leave out the option valueSchema; "
                    "valueSubject and valueVersion choose another one"
                )
            return cls(name, None, mode == "FAILFAST", registry)
        if name in ("raw", "string"):
            if schema is not None:
                raise ConfigError(
                    f"option valueSchema has no meaning with valueFormat {name}: "
                    "set valueFormat to json, csv or avro"
                )
        elif not schema:
            raise ConfigError(
                f"valueFormat {name} needs the option valueSchema, as in page STRING, ms INT"
            )
        found = cls(name, schema, mode == "FAILFAST")
        found.ddl()
        return found

    def ddl(self) -> str:
        """Return the type of the column `value`, as Spark's DDL.

        Raises:
            ConfigError: the schema is no Avro schema, or no schema in JSON.
            RegistryUnreachable: no registry answers.
        """
        if self.registry is not None:
            return registry_ddl(self.registry)
        if self.schema is None:
            return "STRING" if self.name == "string" else "BINARY"
        if self.name == "avro":
            from headrace.spark.value.avro_schema import avro_ddl

            return avro_ddl(self.schema)
        if self.schema.lstrip().startswith("{"):
            return _json_ddl(self.schema)
        return f"STRUCT<{self.schema}>"


def registry_ddl(options: RegistryFormat) -> str:
    """Return the type of a column of values that name their schema, as Spark's DDL."""
    from headrace.spark.value.registry.client import reader_schema
    from headrace.spark.value.registry.column import spark_type

    return type_ddl(spark_type(reader_schema(options), options.message))


def _json_ddl(text: str) -> str:
    """Return the DDL of a schema that `StructType.json()` wrote."""
    try:
        return type_ddl(StructType.fromJson(json.loads(text)))
    except (ValueError, KeyError, TypeError, AttributeError, PySparkException) as error:
        raise ConfigError(
            f"option valueSchema is no schema in JSON as StructType.json() writes it: {error}"
        ) from error


def type_ddl(kind: DataType) -> str:
    """Return a type as DDL with every name quoted, which `simpleString()` does not do."""
    if isinstance(kind, StructType):
        fields = (f"`{each.name.replace('`', '``')}`: {type_ddl(each.dataType)}" for each in kind)
        return f"STRUCT<{', '.join(fields)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{type_ddl(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{type_ddl(kind.keyType)}, {type_ddl(kind.valueType)}>"
    return str(kind.simpleString())
