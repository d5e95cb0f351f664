"""Schemas within the limit of size that stand for far more than their text: work is counted."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from headrace.schema.compatibility import CompatibilityLevel, check
from headrace.schema.error import InvalidSchema
from headrace.schema.limit import MAX_SHOWN_CHARACTERS
from headrace.schema.parsed import ParsedSchema
from headrace.schema.schema import SchemaType
from testkit.sample.schema_evolution import read

AVRO, JSON, PROTOBUF = SchemaType.AVRO, SchemaType.JSON, SchemaType.PROTOBUF
# Of this thread. What is bounded took minutes before; a busy machine doubles what is left.
MAX_CPU_SECONDS = 4.0


def avro_record(fields: list[Any], **more: Any) -> str:
    return json.dumps({"type": "record", "name": "R", "fields": fields, **more})


def records_in_a_long_namespace() -> str:
    fields = [
        {"name": f"f{i}", "type": {"type": "record", "name": f"r{i}", "fields": []}}
        for i in range(8_000)
    ]
    return avro_record(fields, namespace="n." * 100_000 + "n")


def aliases_in_a_long_namespace() -> str:
    return avro_record([], namespace="n" * 100_000, aliases=["a"] * 50_000)


def uses_in_a_long_namespace() -> str:
    fields = [{"name": f"f{i}", "type": "R"} for i in range(10_000)]
    return avro_record(fields, namespace="n" * 400_000)


def definitions_in_a_long_namespace() -> str:
    fields: list[Any] = [{"name": "first", "type": "r1"}]
    fields += [
        {"name": f"f{i}", "type": {"type": "enum", "name": f"r{i}", "symbols": []}}
        for i in range(8_000)
    ]
    return avro_record(fields, namespace="n" * 100_000)


def defaults_of_wide_unions() -> str:
    records = [{"type": "record", "name": f"r{i}", "fields": []} for i in range(4_000)]
    items = {"type": "array", "items": [*records, "long"]}
    return avro_record([{"name": "f", "type": items, "default": list(range(1_000, 80_000))}])


def ids_below_a_long_id() -> str:
    inner = {f"d{i}": {"$id": f"x{i}"} for i in range(10_000)}
    return json.dumps({"$id": "http://a/" + "b/" * 50_000, "definitions": inner})


def references_below_a_long_id() -> str:
    inner = [{"$ref": "#/definitions/a"} for _ in range(10_000)]
    return json.dumps(
        {"$id": "http://a/" + "b" * 300_000, "definitions": {"a": {}}, "anyOf": inner}
    )


def fields_in_a_deep_package() -> str:
    fields = " ".join(f"Z f{i} = {i};" for i in range(1, 15_000))
    return f"package {'a.' * 50_000}a; message Z {{}} message M {{ {fields} }}"


def messages_in_long_messages() -> str:
    inner = " ".join(f"message m{i} {{}}" for i in range(10_000))
    return f"message {'M' * 100_000} {{ {inner} }}"


def uses_of_a_long_name() -> str:
    """Short in the text, and as long as its package in the normalised one."""
    fields = " ".join(f"Z f{i} = {i};" for i in range(1, 15_000))
    return f"package {'a' * 200_000}; message M {{ message Z {{}} {fields} }}"


REFUSED = {
    each.__name__: (kind, each)
    for kind, each in (
        (AVRO, records_in_a_long_namespace),
        (AVRO, aliases_in_a_long_namespace),
        (AVRO, uses_in_a_long_namespace),
        (AVRO, definitions_in_a_long_namespace),
        (AVRO, defaults_of_wide_unions),
        (JSON, ids_below_a_long_id),
        (JSON, references_below_a_long_id),
        (PROTOBUF, fields_in_a_deep_package),
        (PROTOBUF, messages_in_long_messages),
        (PROTOBUF, uses_of_a_long_name),
    )
}


@pytest.mark.parametrize("kind, build", REFUSED.values(), ids=REFUSED.keys())
def test_names_and_defaults_that_multiply_are_refused(
    kind: SchemaType, build: Callable[[], str]
) -> None:
    text = build()
    begin = time.thread_time()
    with pytest.raises(InvalidSchema, match=r"together|too much") as refused:
        read(kind, text)
    assert time.thread_time() - begin < MAX_CPU_SECONDS
    assert len(str(refused.value)) < 400


def compared(old: ParsedSchema, new: ParsedSchema) -> None:
    begin = time.thread_time()
    try:
        check(CompatibilityLevel.FULL, new, [old])
    except InvalidSchema as refused:
        assert "too many" in str(refused)
    assert time.thread_time() - begin < MAX_CPU_SECONDS


def test_objects_without_a_common_property_are_counted_by_their_properties() -> None:
    def objects(prefix: str) -> str:
        return json.dumps(
            {
                "anyOf": [
                    {"properties": {f"{prefix}{i}_{k}": {} for k in range(60)}} for i in range(300)
                ]
            }
        )

    compared(read(JSON, objects("a")), read(JSON, objects("b")))


def test_a_chain_of_references_is_walked_once() -> None:
    def chained(prefix: str) -> str:
        chain: dict[str, Any] = {f"c{i}": {"$ref": f"#/definitions/c{i + 1}"} for i in range(8_000)}
        chain["c8000"] = {"type": "object", "required": [prefix]}
        branches = [{"$ref": "#/definitions/c0", "title": f"{prefix}{i}"} for i in range(300)]
        return json.dumps({"definitions": chain, "anyOf": branches})

    compared(read(JSON, chained("a")), read(JSON, chained("b")))


def test_unions_of_the_same_records_are_counted_each_time() -> None:
    def unions(name: str) -> str:
        types = [{"type": "record", "name": f"{name}{i}", "fields": []} for i in range(200)]
        fields: list[Any] = [{"name": "first", "type": types}]
        names = [f"{name}{i}" for i in range(200)]
        fields += [{"name": f"f{i}", "type": names} for i in range(400)]
        return avro_record(fields)

    compared(read(AVRO, unions("a")), read(AVRO, unions("b")))


def test_ten_thousand_missing_fields_are_not_all_written_down() -> None:
    fields = [{"name": f"f{i}", "type": "int"} for i in range(20_000)]
    old, new = read(AVRO, avro_record([])), read(AVRO, avro_record(fields))
    begin = time.thread_time()
    found = check(CompatibilityLevel.BACKWARD, new, [old])
    assert len(found) == 100
    assert time.thread_time() - begin < MAX_CPU_SECONDS


def test_reasons_show_a_part_of_a_long_name() -> None:
    name = "n" * 500_000
    old = read(JSON, json.dumps({"properties": {name: {"type": "string"}}}))
    new = read(JSON, json.dumps({"properties": {name: {"type": "number"}}}))
    (reason,) = check(CompatibilityLevel.BACKWARD, new, [old])
    assert reason.type == "TYPE_CHANGED"
    assert len(str(reason)) < 6 * MAX_SHOWN_CHARACTERS


def test_an_index_of_thousands_of_digits_points_to_nothing() -> None:
    text = json.dumps({"allOf": [{}], "not": {"$ref": "#/allOf/" + "1" * 5_000}})
    with pytest.raises(InvalidSchema, match="points to nothing"):
        read(JSON, text)


def test_multiples_of_thousands_of_digits_are_compared() -> None:
    old, new = read(JSON, '{"multipleOf": 3}'), read(JSON, f'{{"multipleOf": 3{"0" * 400}}}')
    (reason,) = check(CompatibilityLevel.BACKWARD, new, [old])
    assert reason.type == "MULTIPLE_OF_EXPANDED"
    assert check(CompatibilityLevel.BACKWARD, old, [new]) == []
