"""Arrow columns written as Avro values."""

import datetime
import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.model.error import InvalidArgument
from headrace.schema.parse import parse
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.avro import AvroColumnReader, AvroColumnWriter

K = {"type": "enum", "name": "K", "symbols": ["A", "B"]}
F = {"type": "fixed", "name": "F", "size": 2}
PAIR = {
    "type": "record",
    "name": "R",
    "fields": [{"name": "a", "type": "int"}, {"name": "b", "type": ["null", "string"]}],
}


def schema(value: Any) -> Any:
    return parse(SchemaText(SchemaType.AVRO, json.dumps(value)))


def write(avro: Any, rows: list[Any], kind: pa.DataType | None = None) -> list[Any]:
    writer = AvroColumnWriter(schema(avro))
    column = writer.write(pa.array(rows, kind or writer.type))
    column.values.validate(full=True)
    values = column.values.to_pylist()
    return ["bad" if row in column.bad_rows else each for row, each in enumerate(values)]


@pytest.mark.parametrize(
    ("avro", "value", "expected"),
    [
        ("null", None, b""),
        ("boolean", True, b"\x01"),
        ("int", -2, b"\x03"),
        ("long", -(2**63), b"\xff" * 9 + b"\x01"),
        ("float", 1.5, b"\x00\x00\xc0\x3f"),
        ("double", 1.5, b"\x00" * 6 + b"\xf8\x3f"),
        ("bytes", b"\xff", b"\x02\xff"),
        ("string", "€", b"\x06\xe2\x82\xac"),
        (K, "B", b"\x02"),
        (F, b"ab", b"ab"),
        ({"type": "array", "items": "int"}, [1, 2], b"\x04\x02\x04\x00"),
        ({"type": "array", "items": "int"}, [], b"\x00"),
        ({"type": "map", "values": "int"}, [("a", 2)], b"\x02\x02a\x04\x00"),
        (["null", "int"], 1, b"\x02\x02"),
        (["int", "null"], None, b"\x02"),
        (["int"], 1, b"\x00\x02"),
        (["int", "long"], 1, b"\x02\x02"),
        (["int", "string"], {"member0": None, "member1": "a"}, b"\x02\x02a"),
        (["null", "int", "string"], {"member0": 1, "member1": None}, b"\x02\x02"),
        (["null", "int", "string"], None, b"\x00"),
        (PAIR, {"a": 1, "b": None}, b"\x02\x00"),
        ({"type": "int", "logicalType": "date"}, datetime.date(1970, 1, 3), b"\x04"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            Decimal("-1.23"),
            b"\x02\x85",
        ),
        (
            {"type": "fixed", "logicalType": "decimal", "precision": 4, "name": "D", "size": 4},
            Decimal(-1),
            b"\xff" * 4,
        ),
    ],
)
def test_each_type_is_written(avro: Any, value: Any, expected: bytes) -> None:
    assert write(avro, [value, value]) == [expected, expected]


@pytest.mark.parametrize(
    ("avro", "value", "kind"),
    [
        ("int", 2**31, pa.int64()),
        ("long", 2**63, pa.uint64()),
        ("string", b"\xff", pa.binary()),
        (K, "C", pa.string()),
        (F, b"abc", pa.binary()),
        ({"type": "array", "items": "int"}, [None], pa.list_(pa.int32())),
        (["int", "string"], {"member0": 1, "member1": "a"}, None),
        (["int", "string"], {"member0": None, "member1": None}, None),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 2},
            Decimal(100),
            pa.decimal128(5),
        ),
        (PAIR, {"a": None, "b": "x"}, pa.struct([("a", pa.int32()), ("b", pa.string())])),
    ],
)
def test_a_value_that_does_not_fit_makes_a_bad_row(avro: Any, value: Any, kind: Any) -> None:
    assert write(avro, [value, None], kind)[0] == "bad"


def test_a_bad_row_leaves_its_neighbours() -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.string())])
    rows = [{"a": 1, "b": "x"}, {"a": 2**40, "b": "y"}, None, {"a": 2, "b": None}]

    assert write(PAIR, rows, kind) == [b"\x02\x02\x02x", "bad", None, b"\x04\x00"]


def test_a_prefix_comes_before_each_datum_and_slices_are_written() -> None:
    rows = pa.array([[5], [1], None, [2, 3]], pa.list_(pa.int64())).slice(1)
    avro = schema({"type": "array", "items": "int"})

    column = AvroColumnWriter(avro).write(rows, prefix=b"\x00\x00\x00\x00\x07")

    head = b"\x00\x00\x00\x00\x07"
    values = [head + b"\x02\x02\x00", None, head + b"\x04\x04\x06\x00"]
    assert column.values.to_pylist() == values
    again = AvroColumnReader(avro).read(column.values, skip_bytes=5)
    assert again.values.to_pylist() == [[1], None, [2, 3]]


def test_columns_that_do_not_fit_the_schema_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="no field 'a'"):
        write(PAIR, [{"b": "x"}], pa.struct([("b", pa.string())]))
    with pytest.raises(InvalidArgument, match="must be a struct"):
        write(PAIR, [1], pa.int64())
    with pytest.raises(InvalidArgument, match="must be list"):
        write({"type": "array", "items": "int"}, [1], pa.int64())


def test_a_decimal_is_written_into_a_large_fixed() -> None:
    kind = {"type": "fixed", "logicalType": "decimal", "precision": 4, "name": "D", "size": 500}

    assert write(kind, [Decimal(-1)] * 9) == [b"\xff" * 500] * 9


def test_strings_with_damaged_offsets_are_refused() -> None:
    index = pa.py_buffer(np.array([0, 9, 2], dtype=np.int32))
    rows = pa.Array.from_buffers(pa.binary(), 2, [None, index, pa.py_buffer(b"ab")])

    with pytest.raises(InvalidArgument, match="offsets outside"):
        AvroColumnWriter(schema("bytes")).write(rows)
