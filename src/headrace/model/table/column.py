"""Columns as people declare them: `page STRING, ms INT`, the types of Spark's DDL. Pure."""

import re
from dataclasses import dataclass
from typing import Final

from headrace.model.error import ConfigError

SIMPLE_TYPES: Final = (
    "STRING",
    "BINARY",
    "BOOLEAN",
    "INT",
    "INTEGER",
    "BIGINT",
    "LONG",
    "FLOAT",
    "DOUBLE",
    "DATE",
    "TIMESTAMP",
)
"""The names of types that have no parts."""

_TOKEN: Final = re.compile(r"\s*([A-Za-z_][\w]*|`(?:[^`]|``)+`|\d+|[<>(),:])")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_MOST_DEPTH: Final = 20
_MOST_DIGITS: Final = 38


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column.

    Attributes:
        name: one of `SIMPLE_TYPES`, or DECIMAL, ARRAY, STRUCT.
        precision, scale: of a DECIMAL.
        item: the type of an ARRAY's items.
        fields: of a STRUCT.
    """

    name: str
    precision: int = 10
    scale: int = 0
    item: "ColumnType | None" = None
    fields: tuple["Column", ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """A column, or a field of a STRUCT."""

    name: str
    type: ColumnType


def parse_columns(text: str) -> tuple[Column, ...]:
    """Return the columns of a declaration.

    >>> [each.name for each in parse_columns("page STRING, tags ARRAY<STRING>")]
    ['page', 'tags']

    Raises:
        ConfigError: it declares no columns.
    """
    return _Parser(text).columns()


class _Parser:
    """Reads a declaration from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._wrong(f"{text[at : at + 40].strip()[:20]!r}")
            self._tokens.append(found[1])
            at = found.end()
        self._at = 0

    def columns(self) -> tuple[Column, ...]:
        found = [self._field(0)]
        while self._accept(","):
            found.append(self._field(0))
        if self._at < len(self._tokens):
            raise self._wrong(repr(self._tokens[self._at]))
        names = [each.name for each in found]
        if len(set(names)) < len(names):
            raise ConfigError(f"the columns {self._shown} have a name twice")
        return tuple(found)

    def _field(self, depth: int) -> Column:
        name = self._next()
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        elif not _NAME.fullmatch(name):
            raise self._wrong(repr(name))
        self._accept(":")
        return Column(name, self._type(depth))

    def _type(self, depth: int) -> ColumnType:
        if depth > _MOST_DEPTH:
            raise ConfigError(f"the columns nest more than {_MOST_DEPTH} levels")
        name = self._next().upper()
        if name == "ARRAY":
            self._require("<")
            inner = self._type(depth + 1)
            self._require(">")
            return ColumnType(name, item=inner)
        if name == "STRUCT":
            self._require("<")
            fields = [self._field(depth + 1)]
            while self._accept(","):
                fields.append(self._field(depth + 1))
            self._require(">")
            return ColumnType(name, fields=tuple(fields))
        if name == "DECIMAL":
            return self._decimal()
        if name not in SIMPLE_TYPES:
            raise ConfigError(
                f"there is no type {name[:40]} in {self._shown}: there are "
                f"{', '.join(SIMPLE_TYPES)}, DECIMAL(p, s), ARRAY<T> and STRUCT<name: T>"
            )
        return ColumnType(name)

    def _decimal(self) -> ColumnType:
        if not self._accept("("):
            return ColumnType("DECIMAL")
        precision, scale = self._next(), "0"
        if self._accept(","):
            scale = self._next()
        self._require(")")
        try:
            digits, behind = int(precision), int(scale)
        except ValueError:
            digits, behind = 0, 0
        if not 1 <= digits <= _MOST_DIGITS or behind > digits:
            raise ConfigError(
                f"DECIMAL({precision[:20]}, {scale[:20]}) is no type: write 1 to {_MOST_DIGITS} "
                "digits, and not more of them behind the point"
            )
        return ColumnType("DECIMAL", precision=digits, scale=behind)

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise self._wrong("its end")
        self._at += 1
        return self._tokens[self._at - 1]

    def _accept(self, token: str) -> bool:
        found = self._at < len(self._tokens) and self._tokens[self._at] == token
        self._at += found
        return found

    def _require(self, token: str) -> None:
        found = self._next()
        if found != token:
            raise self._wrong(repr(found))

    @property
    def _shown(self) -> str:
        return repr(self._text if len(self._text) <= 200 else f"{self._text[:200]}…")

    def _wrong(self, what: str) -> ConfigError:
        return ConfigError(
            f"the columns {self._shown} cannot be read at {what}: write them as "
            "'page STRING, ms INT'"
        )
