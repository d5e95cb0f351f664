"""A captured table: how its rows become JSON structs.

Every column has a function from the database's value to JSON text. A row is written by joining
texts, without a Python object per value, because this is the inner loop of change capture.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, Final, NamedTuple

ConnectSchema = Mapping[str, Any]


class Unchanged:
    """The value of a column that the database did not send because it did not change (TOAST)."""

    def __repr__(self) -> str:
        return "UNCHANGED"


UNCHANGED: Final = Unchanged()

Row = Sequence[Any]
"""The values of a row: None for NULL, `UNCHANGED`, or what the column's `to_json` takes."""


class ColumnType(NamedTuple):
    """How the values of a type are written.

    Attributes:
        to_json: from the database's value to JSON text.
        schema: the type in Kafka Connect's words, without the name of a field.
        unavailable: the JSON text for a value that was not sent.
    """

    to_json: Callable[[Any], str]
    schema: ConnectSchema
    unavailable: str = "null"


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        default: the JSON text of a constant default; None without one.
    """

    name: str
    type: ColumnType
    nullable: bool = True
    default: str | None = None

    @property
    def missing(self) -> str:
        """The JSON text for a value that the database did not send, in an old row of which it sent
        the key only. Where the schema says that there is a value, it is the default, or else what
        is empty or zero, as Debezium writes it."""
        if self.nullable:
            return "null"
        return self.default or empty_json(self.type.schema)


class Table:
    """A table as it is at one moment; a change of its schema makes a new one.

    Attributes:
        schema: the schema; the database for MySQL.
        name: the name within the schema.
        topic: the topic of its changes.
        key: the places of the primary key's columns; empty without a primary key.
    """

    __slots__ = ("_key_names", "_writers", "columns", "key", "name", "schema", "topic")

    def __init__(
        self, schema: str, name: str, topic: str, columns: Sequence[Column], key: Sequence[int]
    ) -> None:
        self.schema = schema
        self.name = name
        self.topic = topic
        self.columns = tuple(columns)
        self.key = tuple(key)
        names = [f"{encode_basestring(each.name)}:" for each in columns]
        self._key_names = [names[at] for at in key]
        self._writers = [
            (name, each.type.to_json, name + each.missing, name + each.type.unavailable)
            for name, each in zip(names, self.columns, strict=True)
        ]

    @property
    def identifier(self) -> str:
        """The name with its schema: `public.orders`."""
        return f"{self.schema}.{self.name}"

    def row_json(self, row: Row | None, *, key_only: bool = False) -> str:
        """Return a row as a JSON struct with all columns; `null` for no row.

        Args:
            key_only: the database sent nothing but the key, so that None is a value that was not
                sent. In any other row it is NULL, also where the catalog says NOT NULL by now.
        """
        if row is None:
            return "null"
        parts = [
            (missing if key_only else name + "null")
            if value is None
            else unavailable
            if value is UNCHANGED
            else name + to_json(value)
            for (name, to_json, missing, unavailable), value in zip(self._writers, row, strict=True)
        ]
        return "{" + ",".join(parts) + "}"

    def key_json(self, row: Row) -> str | None:
        """Return the primary key of a row as a JSON struct; None without a primary key."""
        if not self.key:
            return None
        parts = []
        for name, at in zip(self._key_names, self.key, strict=True):
            value = row[at]
            known = value is not None and value is not UNCHANGED
            parts.append(name + (self.columns[at].type.to_json(value) if known else "null"))
        return "{" + ",".join(parts) + "}"

    def row_schema(self, name: str, *, field: str | None = None) -> dict[str, Any]:
        """Return Connect's schema of a row."""
        schema: dict[str, Any] = {
            "type": "struct",
            "fields": [_field(each) for each in self.columns],
            "optional": field is not None,
            "name": name,
        }
        return schema if field is None else {**schema, "field": field}

    def key_schema(self, name: str) -> dict[str, Any]:
        """Return Connect's schema of a key."""
        fields = [_field(self.columns[at]._replace(nullable=False)) for at in self.key]
        return {"type": "struct", "fields": fields, "optional": False, "name": name}


def _field(column: Column) -> dict[str, Any]:
    schema = {**column.type.schema, "optional": column.nullable, "field": column.name}
    if column.default is not None:
        schema["default"] = json.loads(column.default)
    return schema


def empty_json(schema: ConnectSchema) -> str:
    """Return the JSON text of what is empty or zero in a type.

    >>> empty_json({"type": "int64"}), empty_json({"type": "string"})
    ('0', '""')
    """
    named = _EMPTY_NAMED.get(schema.get("name", ""))
    if named is not None:
        return named
    if schema["type"] == "struct":
        fields = (f'"{each["field"]}":{_empty_field(each)}' for each in schema["fields"])
        return "{" + ",".join(fields) + "}"
    return _EMPTY.get(schema["type"], "0")


def _empty_field(schema: ConnectSchema) -> str:
    return "null" if schema.get("optional") else empty_json(schema)


_EMPTY: Final = {
    "boolean": "false",
    "string": '""',
    "bytes": '""',
    "array": "[]",
    "float": "0.0",
    "double": "0.0",
}
_EMPTY_NAMED: Final = {
    "io.debezium.data.VariableScaleDecimal": '{"scale":0,"value":"AA=="}',
    "org.apache.kafka.connect.data.Decimal": '"AA=="',
    "io.debezium.time.ZonedTimestamp": '"1970-01-01T00:00:00Z"',
    "io.debezium.time.ZonedTime": '"00:00:00Z"',
    "io.debezium.data.geometry.Point": (
        '{"x":0.0,"y":0.0,"wkb":"AQEAAAAAAAAAAAAAAAAAAAAAAAAA","srid":null}'
    ),
}


def json_text(value: object) -> str:
    """Return any value as compact JSON, with characters as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
