"""Columns as people declare them: `page STRING, ms INT`, the types of Spark's DDL."""

import json
import re
from pathlib import Path
from typing import Final

import pyarrow as pa

from headrace.model.error import ConfigError

_TYPES: Final = {
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "BOOLEAN": pa.bool_(),
    "INT": pa.int32(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "LONG": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
}
_TOKEN: Final = re.compile(r"\s*([A-Za-z_][\w]*|`(?:[^`]|``)+`|\d+|[<>(),:])")
_MOST_DEPTH: Final = 20


def declared_columns(text: str) -> pa.Schema:
    """Return the columns of a declaration, or of a file that ends with .json or .ddl.

    A JSON file has an object of names and types: `{"page": "STRING", "ms": "INT"}`.

    >>> declared_columns("page STRING, tags ARRAY<STRING>").names
    ['page', 'tags']

    Raises:
        ConfigError: it declares no columns.
    """
    if text.endswith((".json", ".ddl")):
        text = _of_file(Path(text))
    return pa.schema(_Parser(text).columns())


def _of_file(path: Path) -> str:
    try:
        text = path.read_text()
    except OSError as error:
        raise ConfigError(f"--schema {path} cannot be read: {error}") from error
    if path.suffix != ".json":
        return text
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"--schema {path} is no JSON: {error}") from error
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise ConfigError(f'--schema {path} has to be an object: {{"page": "STRING", "ms": "INT"}}')
    return ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in found.items())


class _Parser:
    """Reads a declaration from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[str] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                raise self._wrong(f"{text[at:].strip()[:20]!r}")
            self._tokens.append(found[1])
            at = found.end()
        self._at = 0

    def columns(self) -> list[pa.Field]:
        found = [self._field(0)]
        while self._accept(","):
            found.append(self._field(0))
        if self._at < len(self._tokens):
            raise self._wrong(repr(self._tokens[self._at]))
        names = [each.name for each in found]
        if len(set(names)) < len(names):
            raise ConfigError(f"the columns {self._text!r} have a name twice")
        return found

    def _field(self, depth: int) -> pa.Field:
        name = self._next()
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        elif not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise self._wrong(repr(name))
        self._accept(":")
        return pa.field(name, self._type(depth))

    def _type(self, depth: int) -> pa.DataType:
        if depth > _MOST_DEPTH:
            raise ConfigError(f"the columns nest more than {_MOST_DEPTH} levels")
        name = self._next().upper()
        if name == "ARRAY":
            self._require("<")
            inner = self._type(depth + 1)
            self._require(">")
            return pa.list_(inner)
        if name == "STRUCT":
            self._require("<")
            fields = [self._field(depth + 1)]
            while self._accept(","):
                fields.append(self._field(depth + 1))
            self._require(">")
            return pa.struct(fields)
        if name == "DECIMAL":
            return self._decimal()
        if name not in _TYPES:
            raise ConfigError(
                f"there is no type {name} in {self._text!r}: there are {', '.join(_TYPES)}, "
                "DECIMAL(p, s), ARRAY<T> and STRUCT<name: T>"
            )
        return _TYPES[name]

    def _decimal(self) -> pa.DataType:
        if not self._accept("("):
            return pa.decimal128(10, 0)
        precision, scale = self._next(), "0"
        if self._accept(","):
            scale = self._next()
        self._require(")")
        try:
            return pa.decimal128(int(precision), int(scale))
        except ValueError as error:
            raise ConfigError(f"DECIMAL({precision}, {scale}) is no type: {error}") from error

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

    def _wrong(self, what: str) -> ConfigError:
        return ConfigError(
            f"the columns {self._text!r} cannot be read at {what}: write them as "
            "'page STRING, ms INT'"
        )
