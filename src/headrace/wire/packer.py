"""Writes a message from plain mappings: the inverse of kio's reader, for every API but the hot two.

A handler writes one mapping for all versions. What the asked-for version lacks is left out, what it
has and the mapping does not takes Kafka's default (null, empty or zero where Kafka names none). A
null that only other versions can say becomes empty. A name that no version of the message has, or a
null that none allows, is our mistake and raises `InvalidArgument`.

The writer is compiled from the schema. Neighbours of fixed size are packed by one `struct` call,
which makes it several times as fast as kio's field by field writer.
"""

import struct
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from headrace.model.error import InvalidArgument
from headrace.wire.primitive import INT32, NOTHING, pack_count, pack_string, pack_uvarint
from headrace.wire.schema import FIXED_LETTERS, Field, Schema


class History(Protocol):
    """What all versions of one message know of a field, given by the path of names to it."""

    def has(self, path: tuple[str, ...]) -> bool:
        """Return whether some version has the field."""

    def nullable(self, path: tuple[str, ...]) -> bool:
        """Return whether some version allows a null there."""


Step = Callable[[bytearray, Mapping[str, Any], History], None]
Write = Callable[[bytearray, Any, History], None]

_NO_ID: Final = bytes(16)
_NULLABLE_TIMES: Final = frozenset({"datetime_i64"})


class PackedItems(NamedTuple):
    """The items of an array of structures, packed already (`pack_item`), in one piece."""

    number: int
    data: bytes


def pack_item(schema: Schema, name: str, item: Mapping[str, Any], history: History) -> bytes:
    """Return the bytes of one item of the array `name`, to stand there in its place.

    Raises:
        InvalidArgument: there is no such array, or as for `pack`.
    """
    field = schema.field(name)
    if field is None or field.struct is None or not field.array:
        raise InvalidArgument(f"{schema.name} has no array of structures {name!r}")
    out = bytearray()
    _struct_writer(field.struct, (name,))(out, item, history)
    return bytes(out)


def pack(schema: Schema, body: Mapping[str, Any], history: History, out: bytearray) -> None:
    """Append the bytes of `body` to `out`.

    Raises:
        InvalidArgument: a field is unknown to every version, or of the wrong type.
    """
    _struct_writer(schema, ())(out, body, history)


@cache
def _struct_writer(schema: Schema, path: tuple[str, ...]) -> Write:
    names = frozenset(field.name for field in (*schema.ordinary, *schema.tagged))
    steps = _steps(schema, path)
    where = ".".join((schema.name, *path))

    def write(out: bytearray, body: Any, history: History) -> None:
        try:
            if not names.issuperset(body):
                for name in body.keys() - names:
                    if not history.has((*path, name)):
                        raise InvalidArgument(f"{where} has no field {name!r} in any version")
            for step in steps:
                step(out, body, history)
        except (struct.error, TypeError, AttributeError, ValueError, OverflowError) as cause:
            if isinstance(cause, InvalidArgument):
                raise
            raise InvalidArgument(f"{where} holds a value that cannot be sent: {cause}") from cause

    return write


def _steps(schema: Schema, path: tuple[str, ...]) -> tuple[Step, ...]:
    steps: list[Step] = []
    run: list[Field] = []
    for field in schema.ordinary:
        if field.kind in FIXED_LETTERS and not field.array:
            run.append(field)
            continue
        if run:
            steps.append(_run_step(run))
            run = []
        steps.append(_variable_step(field, schema.flexible, path))
    if run:
        steps.append(_run_step(run))
    if schema.flexible:
        steps.append(_tags_step(schema, path))
    return tuple(steps)


def _run_step(run: list[Field]) -> Step:
    """Make a step for fixed-size neighbours: one lookup each and one pack for all."""
    pack_all = struct.Struct(">" + "".join(FIXED_LETTERS[field.kind] for field in run)).pack
    defaults = tuple((field.name, field.default) for field in run)
    if not any(field.kind in ("uuid", *_NULLABLE_TIMES) for field in run):

        def step(out: bytearray, body: Mapping[str, Any], history: History) -> None:
            get = body.get
            out += pack_all(*[get(name, default) for name, default in defaults])

        return step

    converted = tuple((field.name, field.default, _fixed_converter(field.kind)) for field in run)

    def converting_step(out: bytearray, body: Mapping[str, Any], history: History) -> None:
        get = body.get
        out += pack_all(*[convert(get(name, default)) for name, default, convert in converted])

    return converting_step


def _fixed_converter(kind: str) -> Callable[[Any], Any]:
    if kind == "uuid":
        return _id_bytes
    if kind in _NULLABLE_TIMES:
        return lambda value: -1 if value is None else value
    return lambda value: value


def _id_bytes(value: UUID | None) -> bytes:
    return _NO_ID if value is None else value.bytes


def _variable_step(field: Field, flexible: bool, path: tuple[str, ...]) -> Step:
    name, default = field.name, field.default
    write = _field_writer(field, flexible, (*path, name))

    def step(out: bytearray, body: Mapping[str, Any], history: History) -> None:
        write(out, body.get(name, default), history)

    return step


def _field_writer(field: Field, flexible: bool, path: tuple[str, ...]) -> Write:
    if field.array:
        return _array_writer(field, flexible, path)
    if field.struct is not None:
        write = _struct_writer(field.struct, path)
        return _nullable_struct(write) if field.nullable else write
    return _kind_writer(field, flexible, path)


def _kind_writer(field: Field, flexible: bool, path: tuple[str, ...]) -> Write:
    kind = field.kind
    if kind in FIXED_LETTERS:
        pack_one = struct.Struct(">" + FIXED_LETTERS[kind]).pack
        convert = _fixed_converter(kind)

        def write_fixed(out: bytearray, value: Any, history: History) -> None:
            out += pack_one(convert(value))

        return write_fixed

    nullable = field.nullable and not field.array
    empty: str | bytes = "" if kind == "string" else b""
    pack_variable = pack_string if kind == "string" else _pack_bytes

    def write(out: bytearray, value: Any, history: History) -> None:
        if value is None and not nullable:
            if field.array:
                raise TypeError(f"{field.name} holds a null")
            _check_null(path, history)
            value = empty
        out += pack_variable(value, flexible)

    return write


def _check_null(path: tuple[str, ...], history: History) -> None:
    if not history.nullable(path):
        raise TypeError(f"{path[-1]} cannot be null")


def _pack_bytes(value: bytes | None, flexible: bool) -> bytes:
    if value is None:
        return b"\x00" if flexible else b"\xff\xff\xff\xff"
    head = pack_uvarint(len(value) + 1) if flexible else INT32.pack(len(value))
    return head + bytes(value)


def _array_writer(field: Field, flexible: bool, path: tuple[str, ...]) -> Write:
    if field.struct is not None:
        item = _struct_writer(field.struct, path)
    else:
        item = _kind_writer(field, flexible, path)

    # Structures may come packed already (`pack_item`).
    packable = field.struct is not None
    # Arrays of numbers, such as replicas, are packed by one call.
    letter = FIXED_LETTERS.get(field.kind, "")
    numbers = len(letter) == 1 and field.kind not in _NULLABLE_TIMES

    def write(out: bytearray, value: Any, history: History) -> None:
        if value is None and field.nullable:
            out += pack_count(-1, flexible)
            return
        if value is None:
            _check_null(path, history)
            value = ()
        if type(value) is PackedItems:
            out += pack_count(value.number, flexible)
            out += value.data
            return
        count = len(value)
        out += pack_count(count, flexible)
        if numbers:
            out += struct.pack(f">{count}{letter}", *value)
            return
        for each in value:
            if packable and type(each) is bytes:
                out += each
            else:
                item(out, each, history)

    return write


def _nullable_struct(write_struct: Write) -> Write:
    """Make a writer of a byte that says whether a structure follows, and of that (KIP-893)."""

    def write(out: bytearray, value: Any, history: History) -> None:
        if value is None:
            out.append(0xFF)
            return
        out.append(1)
        write_struct(out, value, history)

    return write


def _tags_step(schema: Schema, path: tuple[str, ...]) -> Step:
    """Make a step for tagged fields in order, without those at their default (KIP-482)."""
    writers = tuple(
        (field.name, pack_uvarint(field.tag or 0), _tag_writer(field, path))
        for field in schema.tagged
    )

    def no_tags(out: bytearray, body: Mapping[str, Any], history: History) -> None:
        out += NOTHING

    if not writers:
        return no_tags

    def step(out: bytearray, body: Mapping[str, Any], history: History) -> None:
        count = 0
        tags = bytearray()
        for name, tag, write in writers:
            value = body.get(name)
            if value is None:
                continue
            content = write(value, history)
            if content is None:
                continue
            count += 1
            tags += tag
            tags += pack_uvarint(len(content))
            tags += content
        out += pack_uvarint(count)
        out += tags

    return step


class _NoHistory:
    """A history for defaults: every field exists and may be null."""

    def has(self, path: tuple[str, ...]) -> bool:
        return True

    def nullable(self, path: tuple[str, ...]) -> bool:
        return True


def _tag_writer(field: Field, path: tuple[str, ...]) -> Callable[[Any, History], bytes | None]:
    """Make a function to the content of one tagged field, or None when it is the default's."""
    write = _field_writer(field, True, (*path, field.name))
    default = bytearray()
    if field.default is not None:
        write(default, field.default, _NoHistory())

    def content(value: Any, history: History) -> bytes | None:
        out = bytearray()
        write(out, value, history)
        return None if out == default else bytes(out)

    return content
