"""Avro values read into columns."""

import datetime
import json
import math
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.model.error import InvalidArgument
from headrace.schema.parse import parse
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.avro import AvroColumnReader


def schema(value: Any) -> Any:
    return parse(SchemaText(SchemaType.AVRO, json.dumps(value)))


def read(avro: Any, *values: bytes | None, reader: Any = None) -> list[Any]:
    found = AvroColumnReader(schema(avro), None if reader is None else schema(reader))
    column = found.read(pa.array(values, pa.binary()))
    column.values.validate(full=True)
    assert column.values.type == found.type
    assert len(column.values) == len(values)
    nulls = {row for row, value in enumerate(values) if value is None}
    assert not nulls & set(column.bad_rows.tolist())
    rows = column.values.to_pylist()
    return ["bad" if row in column.bad_rows else each for row, each in enumerate(rows)]


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def logical(kind: str, logical_type: str, /, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical_type, **more}


K = {"type": "enum", "name": "K", "symbols": ["A", "B"]}
F = {"type": "fixed", "name": "F", "size": 2}
MEMBERS = {"member0": None, "member1": None}
DAY = datetime.date(1970, 1, 3)


@pytest.mark.parametrize(
    ("avro", "value", "expected"),
    [
        ("null", b"", None),
        ("boolean", b"\x01", True),
        ("int", b"\x03", -2),
        ("int", b"\xff\xff\xff\xff\x0f", -(2**31)),
        ("long", b"\xff" * 9 + b"\x01", -(2**63)),
        ("float", struct.pack("<f", 1.5), 1.5),
        ("double", struct.pack("<d", math.pi), math.pi),
        ("bytes", b"\x04\xff\x00", b"\xff\x00"),
        ("string", b"\x00", ""),
        ("string", b"\x06\xe2\x82\xac", "€"),
        (K, b"\x02", "B"),
        (F, b"ab", b"ab"),
        ({"type": "array", "items": "int"}, b"\x04\x02\x04\x02\x06\x00", [1, 2, 3]),
        ({"type": "array", "items": "int"}, b"\x03\x04\x02\x04\x00", [1, 2]),
        ({"type": "array", "items": "null"}, b"\x06\x00", [None] * 3),
        ({"type": "map", "values": "int"}, b"\x02\x02a\x04\x00", [("a", 2)]),
        (["null", "int"], b"\x00", None),
        (["int", "null"], b"\x00\x02", 1),
        (["int"], b"\x00\x02", 1),
        (["int", "long"], b"\x02\x02", 1),
        (["null", "float", "double"], b"\x02" + struct.pack("<f", 1.5), 1.5),
        (["int", "string"], b"\x02\x02a", {"member0": None, "member1": "a"}),
        (["null", "int", "string"], b"\x02\x02", {"member0": 1, "member1": None}),
        (["null", "int", "string"], b"\x00", None),
        (record(field("a", "int"), field("b", "string")), b"\x02\x02x", {"a": 1, "b": "x"}),
        (record(), b"", {}),
        (logical("int", "date"), b"\x04", DAY),
        (logical("int", "time-millis"), b"\x02", datetime.time(microsecond=1000)),
        (logical("long", "time-micros"), b"\x02", datetime.time(microsecond=1)),
        (logical("long", "local-timestamp-millis"), b"\x00", datetime.datetime(1970, 1, 1)),
        (logical("bytes", "decimal", precision=4, scale=2), b"\x04\xff\x85", Decimal("-1.23")),
        (logical("bytes", "decimal", precision=4), b"\x06\x00\x00\x7b", Decimal(123)),
        (
            logical("fixed", "decimal", name="D", size=2, precision=4, scale=2),
            b"\x00\x7b",
            Decimal("1.23"),
        ),
        (logical("bytes", "decimal", precision=40), b"\x02\xff", Decimal(-1)),
        (logical("bytes", "decimal"), b"\x02\xff", b"\xff"),
        (logical("string", "uuid"), b"\x02a", "a"),
        (logical("fixed", "duration", name="D", size=12), b"a" * 12, b"a" * 12),
    ],
)
def test_each_type_is_read(avro: Any, value: bytes, expected: Any) -> None:
    assert read(avro, value, None, value) == [expected, None, expected]


@pytest.mark.parametrize(
    ("avro", "value"),
    [
        ("null", b"\x00"),
        ("boolean", b""),
        ("boolean", b"\x02"),
        ("int", b""),
        ("int", b"\x80"),
        ("int", b"\x80\x80\x80\x80\x10"),
        ("long", b"\xff" * 11),
        ("int", b"\x02\x02"),
        ("float", b"abc"),
        ("double", b"abcdefg"),
        ("bytes", b"\x04a"),
        ("bytes", b"\x01"),
        ("bytes", b"\xfe" + b"\xff" * 8 + b"\x01"),
        ("string", b"\x02\xff"),
        ("string", b"\x06\xed\xa0\x80"),
        ("string", b"\x04\xc0\x80"),
        ("string", b"\x04\xe2\x82"),
        (K, b"\x04"),
        (K, b"\x01"),
        (F, b"a"),
        ({"type": "array", "items": "int"}, b"\x04\x02"),
        ({"type": "array", "items": "int"}, b"\xfe\xff\xff\xff\x0f\x02"),
        ({"type": "array", "items": "int"}, b"\xff" * 9 + b"\x01" + b"\x00" * 9),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\x0f\x00"),
        ({"type": "map", "values": "null"}, b"\xfe\xff\xff\xff\x0f\x00"),
        (["null", "int"], b"\x04"),
        (["null", "int"], b"\x01"),
        (["int", "string"], b"\x04"),
        (logical("int", "time-millis"), b"\x01"),
        (logical("int", "time-millis"), b"\x80\xf0\xb2\x52"),
        (logical("long", "time-micros"), b"\x80\x80\xbb\xdd\x83\x05"),
        (logical("bytes", "decimal", precision=2), b"\x02\x64"),
        (logical("bytes", "decimal", precision=2), b"\x00"),
        (logical("bytes", "decimal", precision=38), b"\x22\x7f" + b"\xff" * 16),
    ],
)
def test_bytes_that_are_no_datum_make_a_bad_row(avro: Any, value: bytes) -> None:
    again = avro["name"] if isinstance(avro, dict) and "name" in avro else avro
    items = {"type": "array", "items": avro}
    within = record(field("list", items), field("v", again), name="Outer")

    assert read(avro, value) == ["bad"]
    found = read(within, b"\x00" + value, b"\x02" + value + b"\x00" + value, None)
    assert found == ["bad", "bad", None]


def test_a_bad_row_leaves_no_trace_in_its_neighbours() -> None:
    avro = record(
        field("tags", {"type": "array", "items": ["null", "string"]}),
        field("more", ["null", record(field("n", ["null", "int"]), name="M")]),
    )
    good = b"\x04\x02\x02a\x00\x00\x02\x02\x06"
    cut = b"\x04\x02\x02b\x02\x02c\x00\x02\x02"
    expected = {"tags": ["a", None], "more": {"n": 3}}

    assert read(avro, good, cut, good, cut) == [expected, "bad", expected, "bad"]
    assert read(avro, cut, b"\x00\x00") == ["bad", {"tags": [], "more": None}]


def test_each_bad_row_says_why() -> None:
    column = AvroColumnReader(schema("string")).read(pa.array([b"\x02a", b"\x02\xff", b"\x00x"]))

    assert column.bad_rows.tolist() == [1, 2]
    assert column.problem(1) == "a string is not UTF-8"
    assert column.problem(2) == "bytes follow the datum"


def test_items_of_many_values_grow_past_the_first_room() -> None:
    one = b"\x80\x02" + b"\x02" * 128 + b"\x00"
    found = AvroColumnReader(schema({"type": "array", "items": {"type": "array", "items": "int"}}))
    values = pa.array([b"\x02" + one + b"\x00"] * 20_000, pa.binary())

    column = found.read(values)

    column.values.validate(full=True)
    assert column.values[19_999].as_py() == [[1] * 128]
    assert len(column.bad_rows) == 0


def test_what_precedes_the_datum_is_skipped() -> None:
    found = AvroColumnReader(schema("int"))
    values = pa.array([b"xx\x02", b"\x04", b"x"])

    assert found.read(values, np.array([2, 0, 1])).values.to_pylist() == [1, 2, None]
    assert found.read(values, np.array([2, 0, 2])).bad_rows.tolist() == [2]
    assert found.read(values, (1 << 63) - 1).bad_rows.tolist() == [0, 1, 2]
    with pytest.raises(InvalidArgument, match="skip_bytes"):
        found.read(values, -1)


def test_room_for_items_is_made_by_bytes_and_not_by_rows() -> None:
    one = b"\x80\x80\x80\x01" + b"\x02" * (1 << 20) + b"\x00"
    found = AvroColumnReader(schema({"type": "array", "items": "int"}))

    column = found.read(pa.array([one] + [b"\x02\x04\x00"] * 500_000, pa.binary()))

    assert len(column.bad_rows) == 0
    assert len(column.values.values) == (1 << 20) + 500_000
    assert column.values[500_000].as_py() == [2]


def test_items_without_bytes_are_bounded_in_each_value() -> None:
    nothings = {"type": "array", "items": "null"}

    assert read(nothings, b"\x80\x02\x00") == [[None] * 128]
    assert read(nothings, b"\x80\x02\x80\x02\x00", b"\x80\x04\x00") == ["bad", "bad"]
    assert read(nothings, *[b"\x02\x00"] * 20_000) == [[None]] * 20_000


def test_a_column_with_damaged_offsets_is_refused() -> None:
    found = AvroColumnReader(schema("int"))
    data = pa.py_buffer(b"\x02\x04")
    index = pa.py_buffer(np.array([0, 9, 2], dtype=np.int32))

    with pytest.raises(InvalidArgument, match="offsets outside"):
        found.read(pa.Array.from_buffers(pa.binary(), 2, [None, index, data]))


def test_slices_and_large_columns_are_read() -> None:
    found = AvroColumnReader(schema("string"))
    values = pa.array([b"no", b"\x02a", None, b"\x02b", b"no"], pa.large_binary()).slice(1, 3)

    assert found.read(values).values.to_pylist() == ["a", None, "b"]
    assert found.read(values.slice(0, 0)).values.to_pylist() == []
    with pytest.raises(InvalidArgument, match="not int64"):
        found.read(pa.array([1]))


def test_a_reader_takes_fields_by_name_and_alias_and_fills_in_defaults() -> None:
    writer = record(
        field("gone", {"type": "map", "values": ["null", "string", F]}),
        field("a", "int"),
        field("old", "string"),
    )
    reader = record(
        field("new", "bytes", aliases=["old"]),
        field("tags", {"type": "array", "items": "string"}, default=["x"]),
        field("a", "double"),
        field("k", ["null", K], default=None),
    )

    value = b"\x06\x02a\x00\x02b\x02\x02x\x02c\x04ab\x00\x02\x02z"

    assert read(writer, value, reader=reader) == [{"new": b"z", "tags": ["x"], "a": 1.0, "k": None}]


@pytest.mark.parametrize(
    ("writer", "reader", "value", "expected"),
    [
        ("int", "long", b"\x02", 1),
        ("int", "float", b"\x02", 1.0),
        ("long", "float", b"\x02", 1.0),
        ("long", "double", b"\x02", 1.0),
        ("float", "double", struct.pack("<f", 0.5), 0.5),
        ("bytes", "string", b"\x02a", "a"),
        ("bytes", "string", b"\x02\xff", "bad"),
        ("string", "bytes", b"\x02a", b"a"),
        ("int", ["null", "long"], b"\x02", 1),
        ("int", ["string", "bytes", "int"], b"\x02", {**MEMBERS, "member2": 1}),
        (["null", "int"], "int", b"\x02\x02", 1),
        (["null", "int"], "int", b"\x00", "bad"),
        (["null", "string"], ["string", "null"], b"\x02\x02a", "a"),
        (["int", "string"], ["string", "long"], b"\x00\x02", {"member0": None, "member1": 1}),
        (K, {**K, "symbols": ["B"], "default": "B"}, b"\x00", "B"),
        (K, {**K, "symbols": ["B"]}, b"\x00", "bad"),
        (K, {**K, "symbols": ["B", "C"]}, b"\x02", "B"),
        (F, {**F, "name": "G", "aliases": ["F"]}, b"ab", b"ab"),
        (
            {"type": "array", "items": "int"},
            {"type": "array", "items": ["null", "long"]},
            b"\x02\x04\x00",
            [2],
        ),
    ],
)
def test_types_are_resolved(writer: Any, reader: Any, value: bytes, expected: Any) -> None:
    assert read(writer, value, reader=reader) == [expected]


@pytest.mark.parametrize(
    ("writer", "reader", "problem"),
    [
        ("string", "int", "has int where the writer's has string"),
        (F, {**F, "size": 3}, "the fixed 'F'"),
        (record(), record(field("a", "int")), "no field 'a'"),
        (["null", "string"], "int", "a union of null, string"),
        (record(field("a", "long")), record(field("a", "int")), "has int where"),
    ],
)
def test_schemas_that_do_not_resolve_are_refused(writer: Any, reader: Any, problem: str) -> None:
    with pytest.raises(InvalidArgument, match=problem):
        AvroColumnReader(schema(writer), schema(reader))


def test_a_type_that_holds_itself_is_refused() -> None:
    tree = record(field("left", ["null", "R"]))

    with pytest.raises(InvalidArgument, match="'R' holds itself"):
        AvroColumnReader(schema(tree))


def test_a_schema_that_unfolds_without_bound_is_refused() -> None:
    kind: Any = "int"
    for number in range(30):
        kind = record(
            field("a", kind), field("b", f"R{number - 1}" if number else "int"), name=f"R{number}"
        )

    with pytest.raises(InvalidArgument, match="more than 10000 columns"):
        AvroColumnReader(schema(kind))
    with pytest.raises(InvalidArgument, match="more than 50000 operations"):
        AvroColumnReader(schema(record(field("x", kind), name="X")), schema(record(name="X")))


def test_the_default_of_an_enum_must_be_one_of_its_symbols() -> None:
    reader = record(field("k", K, default="C"))

    with pytest.raises(InvalidArgument, match="'C' is no symbol"):
        AvroColumnReader(schema(record()), schema(reader))


def test_a_default_that_is_too_large_is_refused() -> None:
    wide = record(*[field(f"f{number}", "int", default=1) for number in range(100)], name="W")
    reader = record(field("w", {"type": "array", "items": wide}, default=[{}] * 5_000))

    with pytest.raises(InvalidArgument, match="too large: shorten it"):
        AvroColumnReader(schema(record()), schema(reader))
