"""Schemas made to hurt: each is refused or read in bounded time, and never raises anything else."""

import json
import time
from typing import Any

import pytest

from headrace.schema.compatibility import CompatibilityLevel, check
from headrace.schema.error import InvalidSchema
from headrace.schema.limit import MAX_TEXT_CHARACTERS
from headrace.schema.schema import SchemaType
from testkit.sample.schema_evolution import read

AVRO, JSON, PROTOBUF = SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF
DEEP = 100_000
# Of this thread, not of the clock: the machine may be busy.
MAX_CPU_SECONDS = 5.0

REFUSED = {
    "Avro past the limit": (AVRO, '"' + "a" * 10_000_000 + '"'),
    "JSON Schema past the limit": (JSON, '{"title": "' + "a" * 10_000_000 + '"}'),
    "Protobuf past the limit": (PROTOBUF, "message M {}" + " " * 10_000_000),
    "lists in lists": (AVRO, "[" * DEEP),
    "arrays of arrays": (AVRO, '{"type":"array","items":' * 5000 + '"int"' + "}" * 5000),
    "objects in objects": (JSON, '{"not":' * DEEP),
    "closed objects in objects": (JSON, '{"not":' * 5000 + "{}" + "}" * 5000),
    "messages in messages": (PROTOBUF, "message M {" * DEEP),
    "options in options": (PROTOBUF, "option x = " + "{a:" * DEEP),
    "lists in options": (PROTOBUF, "option x = " + "[" * DEEP),
    "a number of a million digits": (JSON, '{"maximum": ' + "9" * 1_000_000 + "}"),
    "a number past every double": (JSON, '{"maximum": 1e999999}'),
    "a field number of a million digits": (PROTOBUF, f"message M {{ int32 a = {'9' * 500_000}; }}"),
    "not a number": (AVRO, '{"type": "record", "name": "R", "fields": [], "x": NaN}'),
    "half a surrogate pair": (JSON, '{"title": "\\ud800"}'),
    "a reference to itself": (JSON, '{"$ref": "#"}'),
    "references in a circle": (
        JSON,
        '{"$ref": "#/definitions/a", "definitions":'
        ' {"a": {"$ref": "#/definitions/b"}, "b": {"$ref": "#/definitions/a"}}}',
    ),
    "a reference to a web page": (JSON, '{"$ref": "http://example.com/schema.json"}'),
    "a reference to a file": (JSON, '{"$ref": "file:///etc/passwd"}'),
    "a pattern that is none": (JSON, '{"pattern": "["}'),
    "a pattern of a megabyte": (JSON, json.dumps({"pattern": "a" * 500_000})),
    "an import of a file": (PROTOBUF, 'import "../../etc/passwd"; message M {}'),
    "a million spaces and a sign": (PROTOBUF, " " * 900_000 + "!"),
    "a comment without an end": (PROTOBUF, "/*" * 400_000),
    "base64 of nothing": (PROTOBUF, "AAAA" * 1000),
    "base64 that is none": (PROTOBUF, "abcde"),
    "an empty schema": (PROTOBUF, "   "),
    "no JSON": (AVRO, "message M {}"),
}


@pytest.mark.parametrize("kind, text", REFUSED.values(), ids=REFUSED.keys())
def test_it_is_refused_quickly_with_a_sentence(kind: SchemaType, text: str) -> None:
    begin = time.thread_time()
    with pytest.raises(InvalidSchema) as refused:
        read(kind, text)
    assert time.thread_time() - begin < MAX_CPU_SECONDS
    assert 10 < len(str(refused.value)) < 400


def union_of_records() -> str:
    """A default that fits none of two records which hold each other, a hundred levels deep."""
    inner: Any = "wrong"
    for _ in range(100):
        inner = {"n": inner}
    other = {"type": "record", "name": "B", "fields": [{"name": "n", "type": ["A", "B"]}]}
    first = {"type": "record", "name": "A", "fields": [{"name": "n", "type": ["A", other]}]}
    field = {"name": "f", "type": [first, "B"], "default": inner}
    return json.dumps({"type": "record", "name": "R", "fields": [field]})


def test_a_default_is_not_tried_on_all_ways_through_unions() -> None:
    with pytest.raises(InvalidSchema, match="default"):
        read(AVRO, union_of_records())


def doubling(levels: int, leaf: str) -> str:
    """Each level refers to the next one twice: 2^levels ways to the leaf."""
    schemas: dict[str, Any] = {f"l{levels}": {"type": leaf}}
    for level in range(levels):
        ref = {"$ref": f"#/definitions/l{level + 1}"}
        schemas[f"l{level}"] = {"type": "object", "properties": {"a": ref, "b": ref}}
    return json.dumps({"$ref": "#/definitions/l0", "definitions": schemas})


def test_a_schema_with_many_ways_to_one_part_is_compared_once() -> None:
    old, new = read(JSON, doubling(60, "string")), read(JSON, doubling(60, "number"))
    assert check(CompatibilityLevel.FULL, old, [old]) == []
    found = check(CompatibilityLevel.BACKWARD, new, [old])
    assert 0 < len(found) <= 100


def chain(length: int) -> str:
    schemas: dict[str, Any] = {f"l{length}": {"type": "string"}}
    for level in range(length):
        ref = {"$ref": f"#/definitions/l{level + 1}"}
        schemas[f"l{level}"] = {"properties": {"a": ref}}
    return json.dumps({"$ref": "#/definitions/l0", "definitions": schemas})


def test_a_chain_that_is_too_long_to_compare_is_refused() -> None:
    schema = read(JSON, chain(2_000))
    with pytest.raises(InvalidSchema, match="too deep"):
        check(CompatibilityLevel.BACKWARD, schema, [read(JSON, chain(2_000))])


def branches(word: str, count: int) -> str:
    return json.dumps(
        {"anyOf": [{"type": "object", "required": [f"{word}{i}"]} for i in range(count)]}
    )


@pytest.mark.parametrize("count", [200, 2_000])
def test_many_branches_against_many_are_bounded(count: int) -> None:
    begin = time.thread_time()
    old, new = read(JSON, branches("a", count)), read(JSON, branches("b", count))
    try:
        check(CompatibilityLevel.BACKWARD, new, [old])
    except InvalidSchema as refused:
        assert "too many" in str(refused)
    assert time.thread_time() - begin < MAX_CPU_SECONDS


def records(count: int, prefix: str) -> str:
    return json.dumps(
        [{"type": "record", "name": f"{prefix}{i}", "fields": []} for i in range(count)]
    )


def test_a_union_of_thousands_of_records_is_bounded() -> None:
    begin = time.thread_time()
    old, new = read(AVRO, records(3_000, "A")), read(AVRO, records(3_000, "B"))
    with pytest.raises(InvalidSchema, match="too many"):
        check(CompatibilityLevel.BACKWARD, new, [old])
    assert time.thread_time() - begin < MAX_CPU_SECONDS


LARGE = {
    "an enum of many symbols": (
        AVRO,
        json.dumps({"type": "enum", "name": "E", "symbols": [f"S{i}" for i in range(20_000)]}),
    ),
    "an enum of many values": (JSON, json.dumps({"enum": list(range(30_000))})),
    "a record of many fields": (
        AVRO,
        json.dumps(
            {
                "type": "record",
                "name": "R",
                "fields": [{"name": f"f{i}", "type": "int"} for i in range(5_000)],
            }
        ),
    ),
    "a message of many fields and reserved numbers": (
        PROTOBUF,
        "message M { "
        + "".join(f"reserved {i * 2};" for i in range(3_000, 6_000))
        + "".join(f"int32 f{i} = {i};" for i in range(1, 3_000))
        + "}",
    ),
    "patterns that are slow to compile": (
        JSON,
        json.dumps({"patternProperties": {f"[a-z]{{0,900}}{i}": {} for i in range(2_000)}}),
    ),
    "a file of many messages": (PROTOBUF, "".join(f"message M{i} {{}}" for i in range(3_000))),
}


@pytest.mark.parametrize("kind, text", LARGE.values(), ids=LARGE.keys())
def test_large_and_flat_is_read_and_compared(kind: SchemaType, text: str) -> None:
    assert len(text) <= MAX_TEXT_CHARACTERS
    begin = time.thread_time()
    schema = read(kind, text)
    assert check(CompatibilityLevel.FULL, schema, [schema]) == []
    assert time.thread_time() - begin < MAX_CPU_SECONDS


def test_patterns_are_matched_in_linear_time() -> None:
    name = "a" * 5_000 + "!"
    model = {"patternProperties": {"(a+)+$": {"type": "string"}}, "additionalProperties": False}
    old = read(JSON, json.dumps(model))
    new = read(JSON, json.dumps({**model, "properties": {name: {"type": "string"}}}))
    begin = time.thread_time()
    assert check(CompatibilityLevel.BACKWARD, new, [old]) == []
    assert time.thread_time() - begin < MAX_CPU_SECONDS


def test_references_of_avro_that_need_each_other_are_refused() -> None:
    one = '{"type": "record", "name": "A", "fields": [{"name": "b", "type": "B"}]}'
    two = '{"type": "record", "name": "B", "fields": [{"name": "c", "type": "C"}]}'
    with pytest.raises(InvalidSchema, match="'B'"):
        read(AVRO, one, {"B": two})


def test_imports_in_a_circle_end() -> None:
    resolved = {"b.proto": 'import "a.proto"; message B {}', "a.proto": 'import "b.proto";'}
    assert read(PROTOBUF, 'import "b.proto"; message M { B b = 1; }', resolved).name == "M"
