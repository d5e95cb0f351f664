"""Columns of values of one schema, read and written, without a registry."""

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type

from headrace.model.error import ConfigError
from headrace.schema.parse import parse
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.error import Undecodable, Unencodable
from headrace.serde.registered_schema import RegisteredSchema
from headrace.spark.value.decoded import PartlyDecoded
from headrace.spark.value.registry.avro_schema import avro_text
from headrace.spark.value.registry.column import payload_reader, payload_writer, spark_type
from headrace.spark.value.registry.head import schema_heads, without_heads

AT = datetime(2026, 11, 16, 20, 0, 0, 5, tzinfo=UTC)
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
        {
            "name": "price",
            "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        },
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "notes", "type": {"type": "array", "items": "string"}},
        {"name": "uuid", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
    ],
}
ORDER = {
    "id": 7,
    "at": AT,
    "day": date(2026, 11, 16),
    "price": Decimal("12.50"),
    "kind": "B",
    "tags": [("x", 1)],
    "notes": ["a", "b"],
    "uuid": "5b2c1f3e-0000-4000-8000-000000000000",
    "clock": 12,
}
PROTOBUF = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
message Order {
  enum Kind { NONE = 0; BOOK = 1; }
  message Line { string what = 1; uint32 count = 2; }
  int64 id = 1;
  uint64 big = 2;
  Kind kind = 3;
  repeated Line lines = 4;
  map<string, Line> by_name = 5;
  google.protobuf.Timestamp at = 6;
  google.protobuf.Duration took = 7;
  google.protobuf.StringValue note = 8;
  optional string who = 9;
  bytes raw = 10;
  string left_out = 11;
}
"""
MESSAGE = {
    "id": -7,
    "big": Decimal(2**64 - 1),
    "kind": "BOOK",
    "lines": [{"what": "x", "count": 2**32 - 1}],
    "by_name": [("a", {"what": "y", "count": 0})],
    "at": AT,
    "took": timedelta(seconds=-1.5),
    "note": "",
    "who": None,
    "raw": b"\xff",
    "left_out": "",
}
JSON = {
    "type": "object",
    "properties": {
        "page": {"type": "string"},
        "ms": {"oneOf": [{"type": "null"}, {"type": "integer"}]},
        "share": {"type": ["number", "null"]},
        "who": {"$ref": "#/definitions/Who"},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["page"],
    "definitions": {"Who": {"type": "object", "properties": {"name": {"type": "string"}}}},
}
LOOSE = {
    "type": "object",
    "properties": {
        "any": {},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
}


def schema(kind: SchemaType, text: Any, schema_id: int = 1) -> RegisteredSchema:
    text = text if isinstance(text, str) else json.dumps(text)
    found = SchemaText(kind, text)
    return RegisteredSchema(schema_id, None, "s-value", 1, found, parse(found, {}))


def column(registered: RegisteredSchema, rows: list[Any]) -> pa.Array:
    kind = to_arrow_type(spark_type(registered), timezone="UTC")
    return pa.array(rows, kind)


def read(
    writer: RegisteredSchema, reader: RegisteredSchema, payloads: pa.Array, kind: pa.DataType
) -> pa.Array:
    """Return the column, and raise for one that is not decoded whole."""
    found = payload_reader(writer, reader, kind)(payloads, kind)
    if isinstance(found, PartlyDecoded):
        raise Undecodable(found.problem(int(found.bad_rows[0])))
    return found


@pytest.mark.parametrize(
    ("kind", "text", "row"),
    [
        (SchemaType.AVRO, AVRO, ORDER),
        (SchemaType.PROTOBUF, PROTOBUF, MESSAGE),
        (
            SchemaType.JSON,
            JSON,
            {"page": "/", "ms": 3, "share": 0.5, "who": {"name": "ann"}, "tags": ["a"]},
        ),
        (SchemaType.JSON, LOOSE, {"any": '{"x":[1]}', "counts": [("a", 1)]}),
    ],
)
def test_rows_come_back_as_they_were_written(kind: SchemaType, text: Any, row: Any) -> None:
    registered = schema(kind, text)
    rows = column(registered, [row, None, row])

    written = payload_writer(registered)(rows)
    found = read(registered, registered, written.drop_null(), rows.type)

    assert written.null_count == 1
    assert found.to_pylist() == [row, row]


def test_avro_is_resolved_to_the_readers_schema() -> None:
    old = schema(SchemaType.AVRO, record({"name": "a", "type": "int"}))
    new = schema(
        SchemaType.AVRO,
        record({"name": "a", "type": "long"}, {"name": "b", "type": "string", "default": "?"}),
        2,
    )
    written = payload_writer(old)(column(old, [{"a": 1}]))

    found = read(old, new, written, to_arrow_type(spark_type(new)))

    assert found.to_pylist() == [{"a": 1, "b": "?"}]


@pytest.mark.parametrize(
    ("field", "data"),
    [
        # Fields that the reader does not have are skipped, as deep as they nest.
        ({"name": "next", "type": ["null", "R"]}, b"\x02" * 100_000 + b"\x00"),
        ({"name": "none", "type": {"type": "array", "items": "null"}}, b"\xfe" * 4 + b"\x0f\x00"),
    ],
)
def test_a_writers_schema_cannot_end_the_reader(field: dict[str, Any], data: bytes) -> None:
    writer = schema(SchemaType.AVRO, record(field, {"name": "a", "type": "null"}))
    reader = schema(SchemaType.AVRO, record({"name": "a", "type": "null"}), 2)

    with pytest.raises(Undecodable, match=r"nests deeper|more items than"):
        read(writer, reader, pa.array([data]), to_arrow_type(spark_type(reader)))


@pytest.mark.parametrize(
    ("kind", "text", "data"),
    [
        (SchemaType.AVRO, AVRO, b"\x02"),
        (SchemaType.AVRO, {"type": "record", "name": "R", "fields": []}, b"more"),
        (SchemaType.PROTOBUF, PROTOBUF, b"\xff\xff"),
        (SchemaType.JSON, JSON, b"{"),
        (SchemaType.JSON, LOOSE, b'{"counts":{"a":"x"}}'),
    ],
)
def test_bytes_that_are_no_value(kind: SchemaType, text: Any, data: bytes) -> None:
    registered = schema(kind, text)
    arrow = to_arrow_type(spark_type(registered), timezone="UTC")

    with pytest.raises(Undecodable):
        read(registered, registered, pa.array([data]), arrow)


@pytest.mark.parametrize(
    ("kind", "text", "row", "why"),
    [
        (SchemaType.AVRO, AVRO, {"id": 1}, "does not fit the Avro schema of s-value"),
        (SchemaType.PROTOBUF, PROTOBUF, {"idd": 1}, "has no field idd"),
        (SchemaType.PROTOBUF, PROTOBUF, {"kind": "PEN"}, "has no 'PEN': it has NONE, BOOK"),
        (SchemaType.JSON, JSON, {"ms": 1}, "page"),
        (SchemaType.JSON, LOOSE, {"any": "{"}, "a column that holds JSON"),
    ],
)
def test_rows_that_do_not_fit(kind: SchemaType, text: Any, row: Any, why: str) -> None:
    with pytest.raises(Unencodable, match=why):
        payload_writer(schema(kind, text))(pa.array([row]))


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        (
            SchemaType.AVRO,
            record_of := {
                "type": "record",
                "name": "T",
                "fields": [{"name": "next", "type": ["null", "T"]}],
            },
            "holds itself",
        ),
        (
            SchemaType.AVRO,
            {**record_of, "fields": [{"name": "u", "type": ["int", "string"]}]},
            "the field u has a union",
        ),
        (SchemaType.PROTOBUF, 'syntax="proto3"; message T { T t = 1; }', "T holds itself"),
    ],
)
def test_types_that_spark_does_not_have(kind: SchemaType, text: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        spark_type(schema(kind, text))


def test_an_avro_schema_follows_from_a_columns_type() -> None:
    kind = pa.struct(
        [
            pa.field("n", pa.int64(), nullable=False),
            pa.field("who", pa.struct([("name", pa.string())])),
            pa.field("at", pa.timestamp("us", "UTC")),
            pa.field("tags", pa.map_(pa.string(), pa.float64())),
            pa.field("price", pa.decimal128(9, 2)),
        ]
    )
    row = {
        "n": 1,
        "who": {"name": None},
        "at": AT,
        "tags": [("a", 0.5)],
        "price": Decimal("1.50"),
    }
    registered = schema(SchemaType.AVRO, avro_text(kind, "my.orders-value"))

    written = payload_writer(registered)(pa.array([row], kind))

    assert registered.parsed.name == "my_orders"
    found = read(registered, registered, written, kind)
    assert found.to_pylist() == [row]
    with pytest.raises(ConfigError, match="rename the column to a_b"):
        avro_text(pa.struct([("a b", pa.int64())]), "s")


def test_avro_skips_the_fields_that_a_column_leaves_out_and_heads() -> None:
    whole = schema(
        SchemaType.AVRO,
        record(
            {"name": "page", "type": "string"},
            {
                "name": "who",
                "type": [
                    "null",
                    {
                        "type": "record",
                        "name": "W",
                        "fields": [
                            {"name": "name", "type": "string"},
                            {"name": "age", "type": "int"},
                        ],
                    },
                ],
            },
            {"name": "ms", "type": "long"},
        ),
    )
    row = {"page": "/", "who": {"name": "ann", "age": 7}, "ms": 3}
    written = payload_writer(whole)(column(whole, [row, row]))
    framed = pa.array([b"head." + each for each in written.to_pylist()] + [b"head.\x02"])
    kind = pa.struct([("ms", pa.int64()), ("who", pa.struct([("age", pa.int32())]))])

    found = payload_reader(whole, whole, kind, head_bytes=5)(framed, kind)

    assert isinstance(found, PartlyDecoded)
    assert found.values.to_pylist() == [{"ms": 3, "who": {"age": 7}}] * 2 + [None]
    assert found.bad_rows.tolist() == [2]


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (pa.struct([("pgae", pa.string())]), "names the field pgae, but the Avro record R has"),
        (
            pa.struct([("who", pa.struct([("nmae", pa.string())]))]),
            "names the field nmae, but the Avro record W has only name: correct the name",
        ),
    ],
)
def test_a_field_that_the_readers_avro_schema_lacks_is_refused(
    kind: pa.DataType, sentence: str
) -> None:
    who = {"type": "record", "name": "W", "fields": [{"name": "name", "type": "string"}]}
    newer = schema(
        SchemaType.AVRO,
        record({"name": "page", "type": "string"}, {"name": "who", "type": ["null", who]}),
    )
    # A field of the writer alone does not count: values are resolved to the reader's schema.
    older = schema(SchemaType.AVRO, record({"name": "pgae", "type": "string"}), 2)

    for writer in (newer, older):
        with pytest.raises(ConfigError, match=sentence):
            payload_reader(writer, newer, kind)


def test_heads_are_found_in_slices_and_between_nulls() -> None:
    guid = bytes(range(16))
    values = pa.array(
        [b"\0\0\0\0\x09", b"", None, b"\0\0\1\0\0payload", b"\1" + guid + b"x", b"\0\0", b"{}     "]
    )

    found = schema_heads(values.slice(1))

    assert found.keys.tolist() == [-1, -1, 65536, -2, -1, -1]
    assert found.guid(-2) == "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert found.guid(-1) is None


def test_heads_are_cut_off_values_that_are_shorter_than_them() -> None:
    values = pa.array([b"left", b"\0\0\0\0\1a", b"\0\0\0\0\1", b"\0\0\0\0\1bc", b"out"])

    assert without_heads(values.slice(1, 3), 5).to_pylist() == [b"a", b"", b"bc"]


def record(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": list(fields)}
