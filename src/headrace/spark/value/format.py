"""How the bytes of values become columns: `valueFormat`, `valueSchema`, `valueMode`.

Read on the driver when a user calls `load()`; tasks work with `headrace.spark.value.decoder`.
"""

import json
from dataclasses import dataclass
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from headrace.model.error import ConfigError

VALUE_FORMATS: Final = ("raw", "string", "json", "csv", "avro")
VALUE_MODES: Final = ("PERMISSIVE", "FAILFAST")


@dataclass(frozen=True, slots=True)
class ValueFormat:
    """What was asked for. The schema is a text: it is understood where Spark is."""

    name: str
    schema: str | None
    fail_fast: bool

    @classmethod
    def of(cls, name: str, schema: str | None, mode: str) -> "ValueFormat":
        """Raises:
        ConfigError: a format without its schema, or the other way round.
        """
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
        """The type of the column, as Spark's DDL.

        Raises:
            ConfigError: an Avro or JSON schema that is none.
        """
        if self.schema is None:
            return "STRING" if self.name == "string" else "BINARY"
        if self.name == "avro":
            from headrace.spark.value.avro_schema import avro_ddl

            return avro_ddl(self.schema)
        if self.schema.lstrip().startswith("{"):
            return _json_ddl(self.schema)
        return f"STRUCT<{self.schema}>"


def _json_ddl(text: str) -> str:
    """A schema as `StructType.json()` writes it."""
    try:
        return _ddl(StructType.fromJson(json.loads(text)))
    except (ValueError, KeyError, TypeError, AttributeError, PySparkException) as error:
        raise ConfigError(
            f"option valueSchema is no schema in JSON as StructType.json() writes it: {error}"
        ) from error


def _ddl(kind: DataType) -> str:
    """A type as DDL, with every name in quotes, which `simpleString()` leaves out."""
    if isinstance(kind, StructType):
        fields = (f"`{each.name.replace('`', '``')}`: {_ddl(each.dataType)}" for each in kind)
        return f"STRUCT<{', '.join(fields)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{_ddl(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{_ddl(kind.keyType)}, {_ddl(kind.valueType)}>"
    return str(kind.simpleString())
