"""Values that would end the process of their reader, and those that only look like it."""

import io
import json
from typing import Any

import fastavro
import pytest

from headrace.schema.parse import parse
from headrace.schema.schema import SchemaText, SchemaType
from headrace.serde.codec.codec import Codec
from headrace.serde.codec.schema_codec import codec_of
from headrace.serde.error import Undecodable

LIST = {
    "type": "record",
    "name": "shop.Node",
    "fields": [{"name": "next", "type": ["null", "Node"]}, {"name": "n", "type": "int"}],
}
NOTHINGS = {"type": "array", "items": "null"}
EMPTY: dict[str, Any] = {"type": "record", "name": "R0", "fields": []}


def laughs(levels: int) -> dict[str, Any]:
    """Return a record with ten records in it, each with ten, and so on, none of which has bytes."""
    inner: Any = EMPTY
    for level in range(1, levels + 1):
        fields = [{"name": "f0", "type": inner}]
        fields += [{"name": f"f{each}", "type": f"R{level - 1}"} for each in range(1, 10)]
        inner = {"type": "record", "name": f"R{level}", "fields": fields}
    return inner


def codec(schema: Any) -> Codec:
    return codec_of(parse(SchemaText(SchemaType.AVRO, json.dumps(schema)), {}))


def varint(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema("long"), number)
    return out.getvalue()


def test_a_value_that_nests_too_deep_is_refused_before_the_reader_recurses() -> None:
    with pytest.raises(Undecodable, match="deeper than 300 levels"):
        codec(LIST).decode(b"\x02" * 1_000_000)


def test_a_list_of_some_nodes_is_read() -> None:
    nodes = codec(LIST)
    value: Any = None
    for number in range(100):
        value = {"next": value, "n": number}
    assert nodes.decode(nodes.encode(value)) == value


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        (NOTHINGS, varint(1 << 40) + b"\0"),
        ({"type": "array", "items": EMPTY}, varint(1 << 40) + b"\0"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}, varint(1 << 40)),
        (laughs(9), b""),
    ],
)
def test_items_without_bytes_are_counted(schema: Any, data: bytes) -> None:
    with pytest.raises(Undecodable, match=r"more than 200000 values|items without bytes"):
        codec(schema).decode(data)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (laughs(2), None),
        ({"type": "array", "items": LIST}, [{"next": {"next": None, "n": 1}, "n": -2}]),
    ],
)
def test_small_values_of_such_schemas_are_read(schema: Any, value: Any) -> None:
    if value is None:
        value = {f"f{each}": {f"f{each}": {} for each in range(10)} for each in range(10)}
    found = codec(schema)
    assert found.decode(found.encode(value)) == value


def test_a_walk_sees_every_type_as_the_reader_does() -> None:
    schema = {
        "type": "record",
        "name": "All",
        "namespace": "shop",
        "fields": [
            {"name": "a", "type": {"type": "enum", "name": "Kind", "symbols": ["X", "Y"]}},
            {"name": "b", "type": {"type": "fixed", "name": "Two", "size": 2}},
            {"name": "c", "type": {"type": "map", "values": "double"}},
            {"name": "d", "type": ["null", "string", "float", "bytes"]},
            {"name": "e", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "f", "type": "boolean"},
            {"name": "g", "type": {"type": "array", "items": {"type": "array", "items": "int"}}},
            {"name": "h", "type": ["null", "All"]},
            {"name": "i", "type": "Kind"},
        ],
    }
    value = {
        "a": "Y",
        "b": b"12",
        "c": {"x": 1.5},
        "d": "text",
        "e": 17,
        "f": True,
        "g": [[1, -1], []],
        "h": None,
        "i": "X",
    }
    found = codec(schema)
    data = found.encode({**value, "h": value})
    decoded = found.decode(data)
    assert (decoded["h"]["g"], decoded["h"]["d"]) == ([[1, -1], []], "text")
    with pytest.raises(Undecodable, match="too early"):
        found.decode(data[:-1])
