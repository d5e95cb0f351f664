"""Values of the three formats, without a registry."""

import json
from itertools import pairwise
from typing import Any

import pytest

from headrace.schema.parse import parse
from headrace.schema.schema import Reference, SchemaText, SchemaType
from headrace.serde.codec.codec import Codec
from headrace.serde.codec.codec_factory import codec_of
from headrace.serde.error import Undecodable, Unencodable

AVRO = """{"type": "record", "name": "Click", "fields": [
    {"name": "page", "type": "string"},
    {"name": "ms", "type": ["null", "long"], "default": null}]}"""
JSON = """{"type": "object",
    "properties": {"page": {"type": "string"}, "who": {"$ref": "user.json"}},
    "required": ["page"], "additionalProperties": false}"""
PROTO = """syntax = "proto3";
import "user.proto";
import "google/protobuf/timestamp.proto";
message Click { string page = 1; int64 ms = 2; shop.User who = 3; google.protobuf.Timestamp at = 4;
  message Inner { bool yes = 1; } }
message Other { string name = 1; }"""
USER_PROTO = 'syntax = "proto3"; package shop; message User { string name = 1; }'


def codec(kind: SchemaType, text: str, **resolved: str) -> Codec:
    names = {name.replace("_", "."): each for name, each in resolved.items()}
    references = tuple(Reference(name, name, 1) for name in names)
    return codec_of(parse(SchemaText(kind, text, references), names))


@pytest.fixture
def avro() -> Codec:
    return codec(SchemaType.AVRO, AVRO)


@pytest.fixture
def json_schema() -> Codec:
    return codec(SchemaType.JSON, JSON, user_json='{"type": "string"}')


@pytest.fixture
def protobuf() -> Codec:
    return codec(SchemaType.PROTOBUF, PROTO, user_proto=USER_PROTO)


def test_avro_comes_back(avro: Codec) -> None:
    data = avro.encode({"page": "/", "ms": 12})
    assert avro.decode(data) == {"page": "/", "ms": 12}
    assert avro.decode(avro.encode({"page": "/"})) == {"page": "/", "ms": None}


def test_unions_name_their_branch_in_avros_json(avro: Codec) -> None:
    data = avro.from_json({"page": "/", "ms": {"long": 12}})
    assert avro.decode(data) == {"page": "/", "ms": 12}
    assert avro.to_json(data) == {"page": "/", "ms": {"long": 12}}


@pytest.mark.parametrize("value", [{"ms": 1}, {"page": 7}, [], None, {"page": "/", "more": 1}])
def test_what_is_not_of_the_avro_schema_is_refused(avro: Codec, value: Any) -> None:
    with pytest.raises(Unencodable, match="does not fit its Avro schema"):
        avro.encode(value)


@pytest.mark.parametrize("data", [b"", b"\x04/", b"\x02/\x00more", b"\xff\xff\xff\xff\x0f"])
def test_bytes_that_are_no_avro_are_refused(avro: Codec, data: bytes) -> None:
    with pytest.raises(Undecodable):
        avro.decode(data)


@pytest.mark.parametrize(
    "items",
    [
        '"null"',
        '{"type": "record", "name": "E", "fields": []}',
        '{"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}]}',
        '{"type": "fixed", "name": "F", "size": 0}',
    ],
)
def test_an_array_that_claims_any_number_of_items_is_not_read(items: str) -> None:
    inside = f'{{"type": "array", "items": {items}}}'
    outer = f'{{"type": "record", "name": "R", "fields": [{{"name": "a", "type": {inside}}}]}}'
    billion = bytes.fromhex("80a8d6b90700")
    for text in (inside, outer, f'{{"type": "map", "values": {outer}}}'):
        with pytest.raises(Undecodable, match="items without bytes"):
            codec(SchemaType.AVRO, text).decode(billion)


@pytest.mark.parametrize(
    "items", ['"boolean"', '["null", "int"]', '{"type": "map", "values": "null"}']
)
def test_an_array_that_claims_more_than_it_has_is_refused(items: str) -> None:
    text = f'{{"type": "array", "items": {items}}}'
    with pytest.raises(Undecodable):
        codec(SchemaType.AVRO, text).decode(bytes.fromhex("80a8d6b907"))


def test_a_record_may_hold_itself() -> None:
    text = """{"type": "record", "name": "Tree", "fields": [
        {"name": "children", "type": {"type": "array", "items": "Tree"}}]}"""
    tree = codec(SchemaType.AVRO, text)
    value = {"children": [{"children": []}]}
    assert tree.decode(tree.encode(value)) == value


def test_json_comes_back_when_its_schema_allows_it(json_schema: Codec) -> None:
    data = json_schema.encode({"page": "/ä", "who": "me"})
    assert data == '{"page":"/ä","who":"me"}'.encode()
    assert json_schema.decode(data) == {"page": "/ä", "who": "me"}


@pytest.mark.parametrize(
    ("value", "place"), [({"page": 1}, r"\$\.page"), ({}, r"\$: "), ({"page": "", "who": 1}, "who")]
)
def test_json_past_its_schema_is_refused(json_schema: Codec, value: Any, place: str) -> None:
    with pytest.raises(Unencodable, match=place):
        json_schema.encode(value)


@pytest.mark.parametrize(
    "schema",
    [
        '{"type": "string", "pattern": "^(a|a)*$"}',
        '{"type": "string", "pattern": "^(a+)+$"}',
        '{"type": "string", "allOf": [{"pattern": "^(a+)+$"}]}',
    ],
)
def test_an_expression_takes_no_longer_than_its_text(schema: str) -> None:
    with pytest.raises(Unencodable, match="does not match"):
        codec(SchemaType.JSON, schema).encode("a" * 60 + "!")


def test_names_are_matched_in_linear_time_too() -> None:
    closed = """{"patternProperties": {"^(a+)+$": {"type": "string"}, "^n": {"type": "integer"}},
        "additionalProperties": false}"""
    rules = codec(SchemaType.JSON, closed)
    assert rules.encode({"aaa": "x", "n1": 1}) == b'{"aaa":"x","n1":1}'
    with pytest.raises(Unencodable, match="not in the schema"):
        rules.encode({"a" * 60 + "!": "x"})
    with pytest.raises(Unencodable, match=r"\$\.n1"):
        rules.encode({"n1": "x"})
    typed = codec(SchemaType.JSON, '{"additionalProperties": {"type": "integer"}}')
    with pytest.raises(Unencodable, match=r"\$\.b"):
        typed.encode({"b": "x"})


def test_an_expression_that_looks_around_is_not_applied() -> None:
    with pytest.raises(Unencodable, match="looks around"):
        codec(SchemaType.JSON, '{"pattern": "^(?=a)"}').encode("a")


def test_references_that_double_are_not_followed_for_ever() -> None:
    names = [f"r{depth}" for depth in range(40)]
    definitions = {
        name: {"allOf": [{"$ref": f"#/definitions/{after}"}] * 2} for name, after in pairwise(names)
    } | {names[-1]: {"type": "integer"}}
    schema = json.dumps({"definitions": definitions, "$ref": "#/definitions/r0"})
    with pytest.raises(Unencodable, match="too often"):
        codec(SchemaType.JSON, schema).encode(1)


def test_an_error_does_not_quote_a_whole_schema() -> None:
    schema = json.dumps({"enum": ["x" * 100_000]})
    with pytest.raises(Unencodable) as refused:
        codec(SchemaType.JSON, schema).encode(0)
    assert len(str(refused.value)) < 2_000


def test_what_is_no_json_is_refused(json_schema: Codec) -> None:
    with pytest.raises(Undecodable, match="no JSON"):
        json_schema.decode(b"{")


def test_nothing_is_fetched_for_a_schema() -> None:
    text = '{"$ref": "http://127.0.0.1:1/other.json"}'
    with pytest.raises(Exception, match=r"other\.json"):
        codec(SchemaType.JSON, text).encode({})


def test_protobuf_comes_back_with_imports_and_inner_messages(protobuf: Codec) -> None:
    value = {"page": "/", "ms": "12", "who": {"name": "me"}, "at": "2026-11-16T00:00:00Z"}
    assert protobuf.decode(protobuf.encode(value)) == value
    assert protobuf.decode(protobuf.encode({"name": "x"}, (1,)), (1,)) == {"name": "x"}
    assert protobuf.decode(protobuf.encode({"yes": True}, (0, 0)), (0, 0)) == {"yes": True}


def test_a_file_may_be_imported_twice() -> None:
    first = 'import "b.proto"; import "c.proto"; message A { B b = 1; C c = 2; }'
    second = 'import "c.proto"; message B { C c = 1; }'
    found = codec(
        SchemaType.PROTOBUF, first, b_proto=second, c_proto="message C { optional int32 n = 1; }"
    )
    value = {"b": {"c": {"n": 1}}, "c": {"n": 2}}
    assert found.decode(found.encode(value)) == value


def test_protobuf_that_does_not_fit_is_refused(protobuf: Codec) -> None:
    with pytest.raises(Unencodable, match="pages"):
        protobuf.encode({"pages": "/"})
    with pytest.raises(Undecodable, match="no message"):
        protobuf.decode(b"\xff")
    with pytest.raises(Undecodable, match=r"no message \[7\]"):
        protobuf.decode(b"", (7,))
