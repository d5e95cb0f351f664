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
    """A column of a table."""

    name: str
    type: ColumnType
    nullable: bool = True


class Table:
    """A table as it is at one moment; a change of its schema makes a new one.

    Attributes:
        schema: the schema; the database for MySQL.
        name: the name within the schema.
        topic: the topic of its changes.
        key: the places of the primary key's columns; empty without a primary key.
    """

    __slots__ = ("_key_names", "_names", "columns", "key", "name", "schema", "topic")

    def __init__(
        self, schema: str, name: str, topic: str, columns: Sequence[Column], key: Sequence[int]
    ) -> None:
        self.schema = schema
        self.name = name
        self.topic = topic
        self.columns = tuple(columns)
        self.key = tuple(key)
        self._names = [f"{encode_basestring(each.name)}:" for each in columns]
        self._key_names = [self._names[at] for at in key]

    @property
    def identifier(self) -> str:
        """The name with its schema: `public.orders`."""
        return f"{self.schema}.{self.name}"

    def row_json(self, row: Row | None) -> str:
        """Return a row as a JSON struct with all columns; `null` for no row."""
        if row is None:
            return "null"
        parts = [
            name
            + (
                "null"
                if value is None
                else column.type.unavailable
                if value is UNCHANGED
                else column.type.to_json(value)
            )
            for name, column, value in zip(self._names, self.columns, row, strict=True)
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
    return {**column.type.schema, "optional": column.nullable, "field": column.name}


def json_text(value: object) -> str:
    """Return any value as compact JSON, with characters as they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
