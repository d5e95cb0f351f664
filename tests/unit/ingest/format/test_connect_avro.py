"""Connect's schemas and values as Avro, held against fastavro."""

import base64
import io
import json
import math
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from headrace.ingest.format.connect_avro import avro_schema, avro_writer
from headrace.ingest.format.connect_json_schema import json_schema
from headrace.ingest.format.connect_schema import NotConnect, described
from headrace.schema.parse import parse
from headrace.schema.schema import SchemaText, SchemaType


def field(name: str, kind: str, *, optional: bool = True, **more: Any) -> dict[str, Any]:
    return {"type": kind, "optional": optional, "field": name, **more}


def record(*fields: dict[str, Any], name: str = "shop.t.Value") -> dict[str, Any]:
    return {"type": "struct", "name": name, "optional": False, "fields": list(fields)}


def round_trip(schema: dict[str, Any], value: object) -> Any:
    text = avro_schema(schema)
    parse(SchemaText(SchemaType.AVRO, text))  # the registry takes it
    data = io.BytesIO(avro_writer(schema)(value))
    found = fastavro.schemaless_reader(data, json.loads(text), None)
    assert not data.read()
    return found


MONEY = {
    "name": "org.apache.kafka.connect.data.Decimal",
    "version": 1,
    "parameters": {"scale": "2", "connect.decimal.precision": "8"},
}


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("int16", -3, -3),
        ("int32", 2**31 - 1, 2**31 - 1),
        ("int64", -(2**63), -(2**63)),
        ("float", 1.5, 1.5),
        ("double", "-Infinity", -math.inf),
        ("boolean", True, True),
        ("string", 'ä"\U0001f600', 'ä"\U0001f600'),
        ("bytes", base64.b64encode(b"\0\xff").decode(), b"\0\xff"),
        ("string", None, None),
    ],
)
@pytest.mark.parametrize("optional", [True, False])
def test_values_are_what_fastavro_reads(
    kind: str, value: object, expected: object, optional: bool
) -> None:
    if value is None and not optional:
        return
    assert round_trip(record(field("x", kind, optional=optional)), {"x": value}) == {"x": expected}


def test_structs_arrays_decimals_and_defaults() -> None:
    inner = {"type": "struct", "name": "shop.Point", "fields": [field("x", "double")]}
    schema = record(
        {**field("price", "bytes"), **MONEY},
        field("tags", "array", items={"type": "string", "optional": True}),
        {**inner, "optional": True, "field": "a"},
        {**inner, "optional": True, "field": "b"},
        field("n", "int32", default=7),
        field("level", "int32", optional=False, default=3),
        field("raw", "bytes", default="AP8="),
        field("ratio", "double", default="NaN"),
    )
    value = {
        "price": base64.b64encode(b"\x80").decode(),
        "tags": ["a", None],
        "a": {"x": 1.0},
        "b": {"x": None},
        "n": None,
        "level": 4,
        "raw": "AP8=",
        "ratio": 1,
    }
    assert round_trip(schema, value) == {
        "price": Decimal("-1.28"),
        "tags": ["a", None],
        "a": {"x": 1.0},
        "b": {"x": None},
        "n": None,
        "level": 4,
        "raw": b"\0\xff",
        "ratio": 1.0,
    }
    made = json.loads(avro_schema(schema))
    by_name = {each["name"]: each for each in made["fields"]}
    assert by_name["n"]["type"][1] == "null" and by_name["n"]["default"] == 7
    assert by_name["raw"]["default"] == "\0\xff"
    assert by_name["price"]["type"][1]["logicalType"] == "decimal"
    assert by_name["b"]["type"] == ["null", "shop.Point"]
    assert by_name["ratio"]["type"] == ["null", "double"]


def test_names_that_avro_does_not_have_get_underscores() -> None:
    schema = record(field("line item", "int32"), field("1st", "int32"), name="my-shop.t.Value")
    assert round_trip(schema, {"line item": 1, "1st": 2}) == {"line_item": 1, "_1st": 2}
    assert json.loads(avro_schema(schema))["namespace"] == "my_shop.t"
    with pytest.raises(NotConnect, match="both a_b"):
        avro_schema(record(field("a b", "int32"), field("a_b", "int32")))


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("int64", 2**63, "x: 9223372036854775808 is beyond an integer of 64 bits"),
        ("int32", None, "x: it is null, and its column is NOT NULL by now"),
        ("int32", "7", "x: the value is no integer"),
        ("bytes", "!", "x: the value is no Base64"),
        ("boolean", 1, "x: the value is neither"),
        ("string", 1, "x: "),
    ],
)
def test_a_value_that_does_not_fit_names_its_field(kind: str, value: object, message: str) -> None:
    schema = record({**record(field("x", kind, optional=False)), "field": "after"}, name="E")
    with pytest.raises(NotConnect, match=f"after.{message}"):
        avro_writer(schema)({"after": {"x": value}})


def test_a_schema_that_is_none_is_an_error() -> None:
    for make in (avro_schema, avro_writer, json_schema):
        with pytest.raises(NotConnect):
            make(record(field("x", "uint7")))


@pytest.mark.parametrize(
    "text",
    [
        '{"schema":{"type":"string"},"payload":"ä"}',
        ' {"payload": "ä", "schema": {"type": "string"}}',
        '{"schema":{"type":"string"},"payload":"ä"}\n',
        '{"schema":{"type":"string"}, "payload":"ä"}',
    ],
)
def test_a_message_falls_into_schema_and_payload(text: str) -> None:
    found = described(text.encode())
    assert found.schema == {"type": "string"}
    assert json.loads(found.payload) == "ä"
    assert found.prefix == b'{"schema":{"type":"string"},"payload":'


@pytest.mark.parametrize(
    "text", ['{"id":7}', "7", "", "{", '{"schema":null,"payload":1}', "[" * 5000, '{"schema":1}']
)
def test_a_message_without_a_schema_says_what_to_write(text: str) -> None:
    with pytest.raises(NotConnect, match=r"schemas\.enable = true"):
        described(text.encode())


def test_json_schemas_are_closed_and_say_what_is_required() -> None:
    schema = record(field("id", "int32", optional=False), field("name", "string"))
    made = json.loads(json_schema(schema))
    parse(SchemaText(SchemaType.JSON, json.dumps(made)))
    assert made["required"] == ["id"] and made["additionalProperties"] is False
    assert made["properties"]["name"]["oneOf"] == [{"type": "null"}, {"type": "string"}]
