"""Avro values in columns are what fastavro reads, and no bytes do harm."""

import ctypes
import io
import json
import random
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.schema.parse import parse
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.avro import AvroColumnReader, AvroColumnWriter

GUARD_BYTES = 64

PRIMITIVES = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=40),
    "string": st.text(max_size=20),
}


class Kinds:
    """Draws a schema with new names for its types, and with it a strategy for values.

    A strategy yields the value for fastavro's writer and what Arrow's `to_pylist` has for it.
    """

    def __init__(self, draw: Any) -> None:
        self._draw = draw
        self._count = 0

    def _name(self) -> str:
        self._count += 1
        return f"T{self._count}"

    def kind(self, depth: int, *, in_union: bool = False) -> tuple[Any, Any]:
        shapes = ["primitive", "enum", "fixed"]
        if depth:
            shapes += ["array", "map", "record", *([] if in_union else ["nullable", "union"])]
        return getattr(self, f"_{self._draw(st.sampled_from(shapes))}")(depth - 1)

    def _primitive(self, _: int) -> tuple[Any, Any]:
        name = self._draw(st.sampled_from(sorted(PRIMITIVES)))
        return name, PRIMITIVES[name].map(lambda value: (value, value))

    def _enum(self, _: int) -> tuple[Any, Any]:
        symbols = [f"S{number}" for number in range(self._draw(st.integers(1, 4)))]
        values = st.sampled_from(symbols).map(lambda value: (value, value))
        return {"type": "enum", "name": self._name(), "symbols": symbols}, values

    def _fixed(self, _: int) -> tuple[Any, Any]:
        size = self._draw(st.integers(0, 20))
        values = st.binary(min_size=size, max_size=size).map(lambda value: (value, value))
        return {"type": "fixed", "name": self._name(), "size": size}, values

    def _array(self, depth: int) -> tuple[Any, Any]:
        kind, items = self.kind(depth)
        values = st.lists(items, max_size=4).map(
            lambda pairs: ([a for a, _ in pairs], [b for _, b in pairs])
        )
        return {"type": "array", "items": kind}, values

    def _map(self, depth: int) -> tuple[Any, Any]:
        kind, items = self.kind(depth)
        values = st.dictionaries(st.text(max_size=4), items, max_size=3).map(
            lambda found: (
                {key: a for key, (a, _) in found.items()},
                [(key, b) for key, (_, b) in found.items()],
            )
        )
        return {"type": "map", "values": kind}, values

    def _record(self, depth: int) -> tuple[Any, Any]:
        name = self._name()
        fields = [self.kind(depth) for _ in range(self._draw(st.integers(0, 4)))]
        schema = {
            "type": "record",
            "name": name,
            "fields": [{"name": f"f{at}", "type": kind} for at, (kind, _) in enumerate(fields)],
        }
        values = st.tuples(*(each for _, each in fields)).map(
            lambda row: (
                {f"f{at}": a for at, (a, _) in enumerate(row)},
                {f"f{at}": b for at, (_, b) in enumerate(row)},
            )
        )
        return schema, values

    def _nullable(self, depth: int) -> tuple[Any, Any]:
        kind, values = self.kind(depth, in_union=True)
        if kind == "null":
            return kind, values
        found = values | st.just((None, None))
        return (["null", kind] if self._draw(st.booleans()) else [kind, "null"]), found

    def _union(self, depth: int) -> tuple[Any, Any]:
        """A string and a record: fastavro finds the branch of either by the value."""
        record, records = self._record(depth)
        texts = st.text(max_size=5).map(lambda text: (text, {"member0": text, "member1": None}))
        pairs = records.map(
            lambda pair: ((record["name"], pair[0]), {"member0": None, "member1": pair[1]})
        )
        return ["string", record], texts | pairs


@st.composite
def columns(draw: Any) -> tuple[Any, list[bytes], list[Any]]:
    """A schema, values in fastavro's bytes, and what they are in Arrow."""
    kind, values = Kinds(draw).kind(3)
    rows = draw(st.lists(values, max_size=6))
    return kind, [encoded(kind, value) for value, _ in rows], [expected for _, expected in rows]


def encoded(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def parsed(schema: Any) -> Any:
    return parse(SchemaText(SchemaType.AVRO, json.dumps(schema)))


def column_reader(schema: Any, reader: Any = None) -> AvroColumnReader:
    return AvroColumnReader(parsed(schema), None if reader is None else parsed(reader))


@settings(deadline=None, max_examples=60)
@given(columns())
def test_values_are_those_that_fastavro_wrote(drawn: tuple[Any, list[bytes], list[Any]]) -> None:
    schema, values, expected = drawn

    column = column_reader(schema).read(pa.array(values, pa.binary()))

    column.values.validate(full=True)
    assert column.bad_rows.tolist() == []
    assert column.values.to_pylist() == expected


@settings(deadline=None, max_examples=60)
@given(columns())
def test_fastavro_reads_what_is_written(drawn: tuple[Any, list[bytes], list[Any]]) -> None:
    schema, values, _ = drawn
    reader = column_reader(schema)
    rows = reader.read(pa.array(values, pa.binary())).values

    column = AvroColumnWriter(parsed(schema)).write(rows)

    column.values.validate(full=True)
    assert column.bad_rows.tolist() == []
    assert reader.read(column.values).values.equals(rows)
    for before, after in zip(values, column.values.to_pylist(), strict=True):
        assert plain(schema, after) == plain(schema, before)


def plain(schema: Any, value: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(value), fastavro.parse_schema(schema), None)


@settings(deadline=None, max_examples=60)
@given(columns(), st.randoms(use_true_random=False))
def test_damaged_values_harm_no_other_and_nothing_is_read_outside(
    drawn: tuple[Any, list[bytes], list[Any]], chance: random.Random
) -> None:
    schema, values, expected = drawn
    reader = column_reader(schema)
    damaged = [damage(value, chance) for value in values]
    mixed = [part for pair in zip(values, damaged, strict=True) for part in pair]

    # The same with other bytes around the values: what is read does not depend on them.
    found = [reader.read(guarded(mixed, guard)) for guard in (0x00, 0xFF, 0x02)]

    for column in found:
        column.values.validate(full=True)
        assert len(column.values) == len(mixed)
        assert column.values.to_pylist()[::2] == expected
        assert column.bad_rows.tolist() == found[0].bad_rows.tolist()
        assert repr(column.values.to_pylist()) == repr(found[0].values.to_pylist())


def damage(value: bytes, chance: random.Random) -> bytes:
    changed = bytearray(value)
    for _ in range(chance.randrange(1, 4)):
        kind = chance.randrange(4)
        if kind == 0 and changed:
            changed[chance.randrange(len(changed))] = chance.choice([0, 1, 2, 0x7F, 0x80, 0xFF])
        elif kind == 1:
            del changed[chance.randrange(len(changed) + 1) :]
        elif kind == 2:
            at = chance.randrange(len(changed) + 1)
            huge = [b"\xfe\xff\xff\xff\x0f", b"\xff" * 9 + b"\x01", b"\x00"]
            changed[at:at] = chance.choice(huge)
        else:
            changed += chance.randbytes(2)
    return bytes(changed)


def guarded(values: list[bytes], guard: int) -> pa.Array:
    """Values between guard bytes, each value behind as many of its own."""
    padded = [bytes([guard]) * GUARD_BYTES, *values, bytes([guard]) * GUARD_BYTES]
    return pa.array(padded, pa.binary()).slice(1, len(values))


WIDER = {
    "int": ["int", "long", "float", "double"],
    "long": ["long", "float", "double"],
    "float": ["float", "double"],
    "string": ["string", "bytes"],
}
SMALL = {
    "int": st.integers(-1000, 1000),
    "long": st.integers(-1000, 1000),
    "float": st.integers(-100, 100).map(float),
    "string": st.text("abc", max_size=3),
}
DEFAULTS = {"int": 7, "long": 8, "float": 0.5, "string": "x"}


@st.composite
def evolutions(draw: Any) -> tuple[Any, Any, list[Any]]:
    """A writer's record, a reader's with fields left out, added and promoted, and values."""
    names = st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=5)
    kinds = {name: draw(st.sampled_from(sorted(WIDER))) for name in "abcdefgh"}
    nullable = draw(st.sets(st.sampled_from("abcdefgh")))
    written, read = draw(names), draw(names)

    def optional(name: str, kind: str) -> Any:
        return ["null", kind] if name in nullable else kind

    writer = [{"name": each, "type": optional(each, kinds[each])} for each in written]
    reader: list[Any] = []
    for each in read:
        if each in written:
            wider = draw(st.sampled_from(WIDER[kinds[each]]))
            reader.append({"name": each, "type": optional(each, wider)})
        else:
            reader.append({"name": each, "type": kinds[each], "default": DEFAULTS[kinds[each]]})
    rows = st.fixed_dictionaries(
        {
            each: SMALL[kinds[each]] | st.none() if each in nullable else SMALL[kinds[each]]
            for each in written
        }
    )
    values = draw(st.lists(rows, max_size=4))
    return (
        {"type": "record", "name": "R", "fields": writer},
        {"type": "record", "name": "R", "fields": reader},
        values,
    )


@settings(deadline=None, max_examples=60)
@given(evolutions())
def test_a_readers_schema_reads_what_fastavro_reads(drawn: tuple[Any, Any, list[Any]]) -> None:
    writer, reader, values = drawn
    data = [encoded(writer, value) for value in values]

    column = column_reader(writer, reader).read(pa.array(data, pa.binary()))

    column.values.validate(full=True)
    assert column.bad_rows.tolist() == []
    assert column.values.to_pylist() == [
        fastavro.schemaless_reader(
            io.BytesIO(each), fastavro.parse_schema(writer), fastavro.parse_schema(reader)
        )
        for each in data
    ]


def test_a_value_at_the_end_of_its_memory_is_read_without_what_follows() -> None:
    """The last value ends where its buffer does, and bytes behind it would complete a cut one."""
    reader = column_reader({"type": "array", "items": "string"})
    whole = encoded({"type": "array", "items": "string"}, ["abc", "def"])
    room = (ctypes.c_char * (2 * len(whole)))(*(whole * 2))
    for cut in range(len(whole)):
        index = pa.py_buffer(np.array([0, cut], dtype=np.int32))
        data = pa.foreign_buffer(ctypes.addressof(room), cut, room)
        column = reader.read(pa.Array.from_buffers(pa.binary(), 1, [None, index, data]))
        assert column.bad_rows.tolist() == [0]
