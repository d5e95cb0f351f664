"""Reads requests that are sound, without a word for what is wrong with others.

A put may have 500 records, and nearly all of them are sound. So a shape is compiled once into
functions that do no more than a sound value needs.

Rule 1: a value that is not sound, or that is unusual, raises `Declined`, and `input_check` walks
over the whole request to say why, or to take it. What is read here is what that walk returns.
"""

import binascii
from collections.abc import Callable
from typing import Any, Final

from headrace.gateway.kinesis.protocol.base64_column import decoded
from headrace.gateway.kinesis.protocol.service_model import Shape

Reader = Callable[[Any], Any]

_NO_LIMIT: Final = 2**63
_INT_RANGE: Final = {"integer": 2**31, "long": 2**63}
_LARGE_CHARACTERS: Final = 4096
"""Of base64 that is decoded without the GIL."""

# By identity: shapes hold dictionaries. The shape is kept, so that its identity stays its own.
_readers: dict[int, tuple[Shape, Reader]] = {}


class Declined(Exception):
    """The slow path is to read this request."""


def sound_input(shape: Shape, raw: Any) -> Any:
    """Return a sound value, checked and converted.

    Raises:
        Declined: it is not sound, or not simple enough to say so here.
    """
    return _reader(shape)(raw)


def _reader(shape: Shape) -> Reader:
    known = _readers.get(id(shape))
    if known is None:
        known = _readers[id(shape)] = (shape, _COMPILERS.get(shape.kind, _declining)(shape))
    return known[1]


def _declining(_: Shape) -> Reader:
    def read(_: Any) -> Any:
        raise Declined

    return read


def _structure(shape: Shape) -> Reader:
    # A shape may contain itself, so those of its members are compiled when they are first met.
    members = tuple(shape.members.items())
    required = shape.required
    readers: dict[str, Reader] = {}

    def read(raw: Any) -> dict[str, Any]:
        if type(raw) is not dict:
            raise Declined
        checked = {}
        for name, member in members:
            value = raw.get(name)
            if value is not None:
                reader = readers.get(name)
                if reader is None:
                    reader = readers[name] = _reader(member)
                checked[name] = reader(value)
        for name in required:
            if name not in checked:
                raise Declined
        return checked

    return read


def _list(shape: Shape) -> Reader:
    [element] = shape.element
    least, most = _limits(shape)
    blobs = [name for name, each in element.members.items() if each.kind == "blob"]

    def read(raw: Any) -> list[Any]:
        if type(raw) is not list or not least <= len(raw) <= most:
            raise Declined
        for name in blobs:
            raw = _with_blobs(name, raw)
        reader = _reader(element)
        return [reader(each) for each in raw]  # a null is of no type, and declined

    return read


def _with_blobs(name: str, raw: list[Any]) -> list[Any]:
    """Return structures with a blob of each decoded, all at once, unless one has another type."""
    texts: list[str] = []
    for each in raw:
        text = each.get(name) if type(each) is dict else None
        if type(text) is not str:
            return raw
        texts.append(text)
    values = decoded(texts)
    if values is None:
        raise Declined
    return [{**each, name: value} for each, value in zip(raw, values, strict=True)]


def _text(shape: Shape) -> Reader:
    least, most = _limits(shape)
    pattern, choices = shape.pattern, shape.choices

    def read(raw: Any) -> str:
        if type(raw) is not str or not raw.isascii() or not least <= len(raw) <= most:
            return _unusual(raw)
        if pattern is not None and not pattern.fullmatch(raw):
            raise Declined
        if choices and raw not in choices:
            raise Declined
        return raw

    def _unusual(raw: Any) -> str:
        """A key of letters that are not ASCII's is sound; a limit counts UTF-16 units of it."""
        if type(raw) is not str or raw.isascii() or pattern is not None or choices:
            raise Declined
        try:
            units = len(raw.encode("utf-16-le")) // 2
        except UnicodeEncodeError:
            raise Declined from None
        if not least <= units <= most:
            raise Declined
        return raw

    return read


def _blob(shape: Shape) -> Reader:
    least, most = _limits(shape)

    def read(raw: Any) -> bytes:
        if type(raw) is str:
            raw = _decoded(raw)
        if type(raw) is not bytes or not least <= len(raw) <= most:
            raise Declined
        return raw

    return read


def _decoded(text: str) -> bytes:
    if len(text) < _LARGE_CHARACTERS:
        try:
            return binascii.a2b_base64(text, strict_mode=True)
        except ValueError:
            raise Declined from None
    values = decoded([text])
    if values is None:
        raise Declined
    return values[0]


def _number(shape: Shape) -> Reader:
    limit = _INT_RANGE[shape.kind]
    least = -limit if shape.least is None else shape.least
    most = limit - 1 if shape.most is None else min(shape.most, limit - 1)

    def read(raw: Any) -> int:
        if type(raw) is not int or not least <= raw <= most:
            raise Declined
        return raw

    return read


def _limits(shape: Shape) -> tuple[int, int]:
    least = 0 if shape.least is None else shape.least
    return least, _NO_LIMIT if shape.most is None else shape.most


_COMPILERS: Final = {
    "structure": _structure,
    "list": _list,
    "string": _text,
    "blob": _blob,
    "integer": _number,
    "long": _number,
}
