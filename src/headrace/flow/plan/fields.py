"""The fields of a stream's tuples: names and types, declared once and checked at every emit."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from headrace.flow.error import FlowError

HIDDEN = "_"
"""Columns whose names begin with this are internal."""

_PLAIN: dict[str, pa.DataType] = {
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "LONG": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    # Spark's timestamps are instants in microseconds.
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
}
_TOKEN = re.compile(r"\s*([A-Za-z_][A-Za-z_0-9]*|\d+|[<>(),:])")


@dataclass(frozen=True, slots=True)
class Fields:
    """Names and types in order, written as Spark's DDL.

    >>> Fields.parse("word STRING, n BIGINT").names
    ('word', 'n')
    >>> Fields.parse(["word", "page"]).ddl
    'word STRING, page STRING'
    """

    schema: pa.Schema
    ddl: str

    @classmethod
    def parse(cls, text: "str | Sequence[str] | Fields") -> "Fields":
        """Return the fields of a DDL text, or of names alone, which are then strings.

        Raises:
            FlowError: the text is no list of names and types, or has a name twice.
        """
        if isinstance(text, Fields):
            return text
        if not isinstance(text, str):
            text = ", ".join(each if " " in each.strip() else f"{each} STRING" for each in text)
        columns = list(_DdlParser(text).columns())
        names = [name for name, _, _ in columns]
        for name in names:
            if name.startswith(HIDDEN):
                raise FlowError(
                    f"a field cannot be called {name!r}: the underscore is the engine's"
                )
            if names.count(name) > 1:
                raise FlowError(f"the field {name!r} is declared twice in {text!r}")
        schema = pa.schema([pa.field(name, kind) for name, kind, _ in columns])
        return cls(schema, ", ".join(f"{name} {ddl}" for name, _, ddl in columns))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    def ddl_of(self, name: str) -> str:
        """Return the type of one field, as DDL."""
        return next(ddl for each, _, ddl in _DdlParser(self.ddl).columns() if each == name)

    def check_known(self, names: Iterable[str], who: str) -> None:
        """Raise when a name is not among these fields."""
        for name in names:
            if name not in self.names:
                raise FlowError(
                    f"{who} names the field {name!r}, but the stream has {', '.join(self.names)}"
                )

    def __len__(self) -> int:
        return len(self.schema)


class _DdlParser:
    """Parses the part of Spark's DDL that tuples need."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._split())
        self._at = 0

    def _split(self) -> Iterator[str]:
        at = 0
        end = len(self._text.rstrip())
        while at < end:
            match = _TOKEN.match(self._text, at)
            if match is None:
                raise self._wrong(f"{self._text[at:].strip()[:20]!r} is neither a name nor a type")
            yield match[1]
            at = match.end()

    def columns(self) -> Iterator[tuple[str, pa.DataType, str]]:
        while True:
            name = self._next()
            kind, ddl = self._type()
            yield name, kind, ddl
            if self._at == len(self._tokens):
                return
            self._expect(",")

    def _type(self) -> tuple[pa.DataType, str]:
        name = self._next().upper()
        if name in _PLAIN:
            return _PLAIN[name], name
        if name == "DECIMAL":
            return self._decimal()
        if name == "ARRAY":
            self._expect("<")
            kind, ddl = self._type()
            self._expect(">")
            return pa.list_(kind), f"ARRAY<{ddl}>"
        if name == "MAP":
            self._expect("<")
            key, key_ddl = self._type()
            self._expect(",")
            value, value_ddl = self._type()
            self._expect(">")
            return pa.map_(key, value), f"MAP<{key_ddl}, {value_ddl}>"
        if name == "STRUCT":
            return self._struct()
        raise self._wrong(f"{name} is not a type; write STRING, BIGINT, DOUBLE, ARRAY<...> ...")

    def _decimal(self) -> tuple[pa.DataType, str]:
        self._expect("(")
        precision = int(self._next())
        self._expect(",")
        scale = int(self._next())
        self._expect(")")
        return pa.decimal128(precision, scale), f"DECIMAL({precision},{scale})"

    def _struct(self) -> tuple[pa.DataType, str]:
        self._expect("<")
        parts: list[tuple[str, Any, str]] = []
        while True:
            name = self._next()
            self._expect(":")
            kind, ddl = self._type()
            parts.append((name, kind, ddl))
            if self._peek() != ",":
                break
            self._expect(",")
        self._expect(">")
        ddl = ", ".join(f"{name}: {each}" for name, _, each in parts)
        return pa.struct([(name, kind) for name, kind, _ in parts]), f"STRUCT<{ddl}>"

    def _peek(self) -> str | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _next(self) -> str:
        token = self._peek()
        if token is None:
            raise self._wrong("it ends too early: every field is a name and a type")
        self._at += 1
        return token

    def _expect(self, mark: str) -> None:
        token = self._next()
        if token != mark:
            raise self._wrong(f"{token!r} stands where {mark!r} should")

    def _wrong(self, why: str) -> FlowError:
        return FlowError(f"the fields {self._text!r} cannot be read: {why}")
