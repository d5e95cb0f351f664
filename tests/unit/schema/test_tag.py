"""Tags on records and fields: found, added and removed in each format."""

import json

import pytest

from headrace.schema import tag
from headrace.schema.error import InvalidSchema
from headrace.schema.parse import parse
from headrace.schema.parsed import ParsedSchema
from headrace.schema.schema import SchemaText, SchemaType
from headrace.schema.tag import Entity, EntityType, TagChange

AVRO = json.dumps(
    {
        "type": "record",
        "name": "Person",
        "namespace": "shop",
        "fields": [
            {"name": "name", "type": "string", "confluent:tags": ["PII"]},
            {
                "name": "homes",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "Address",
                        "namespace": "geo",
                        "fields": [{"name": "street", "type": ["null", "string"], "default": None}],
                    },
                },
            },
            {"name": "friend", "type": ["null", "Person"], "default": None},
        ],
    }
)
JSON = json.dumps(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "confluent:tags": ["PII"]},
            "homes": {
                "type": "array",
                "items": {"type": "object", "properties": {"street": {"type": "string"}}},
            },
            "pay": {"oneOf": [{"type": "object", "properties": {"iban": {"type": "string"}}}]},
        },
        "definitions": {"Unused": {"type": "object"}},
        "if": {"type": "object", "properties": {"name": {"const": "x"}}},
    }
)
PROTOBUF = """syntax = "proto3";
package shop;
import "confluent/meta.proto";
message Person {
  string name = 1 [(confluent.field_meta).tags = "PII"];
  repeated Address homes = 2;
  oneof pay { string iban = 3; }
  message Address { string street = 1 [(confluent.field_meta) = { doc: "where", tags: ["GEO"] }]; }
}
"""


def record(path: str) -> Entity:
    return Entity(path, EntityType.RECORD)


def field(path: str) -> Entity:
    return Entity(path, EntityType.FIELD)


def parsed(kind: SchemaType, text: str) -> ParsedSchema:
    return parse(SchemaText(kind, text))


@pytest.mark.parametrize(
    ("kind", "text", "has", "gets"),
    [
        (
            SchemaType.AVRO,
            AVRO,
            field("shop.Person.name"),
            [record("shop.Person"), field("geo.Address.street"), field("shop.Person.friend")],
        ),
        (
            SchemaType.JSON,
            JSON,
            field("object.name"),
            [
                record("object"),
                field("object.homes.array.object.street"),
                record("object.homes.array.object"),
                field("object.pay.oneof.0.object.iban"),
                record("object.definitions.Unused"),
                field("allof.0.conditional.if.object.name"),
            ],
        ),
        (
            SchemaType.PROTOBUF,
            PROTOBUF,
            field("shop.Person.name"),
            [record("shop.Person.Address"), field("shop.Person.iban"), record("shop.Person")],
        ),
    ],
)
def test_tags_are_added_found_and_removed(
    kind: SchemaType, text: str, has: Entity, gets: list[Entity]
) -> None:
    schema = parsed(kind, text)
    before = schema.tags()
    assert before[has] == ("PII",)
    added = {entity: ("PII", "SECRET") for entity in (*gets, has)}
    tagged = parsed(kind, schema.with_tags(TagChange(added)))
    assert tagged.tags() == {**before, **added}
    assert schema.tags() == before  # it is another schema
    back = parsed(kind, tagged.with_tags(TagChange(remove={**added, has: ("SECRET",)})))
    assert back.tags() == before
    assert parsed(kind, back.canonical).canonical == back.canonical


def test_avros_namespace_may_be_left_out() -> None:
    change = TagChange({record("Address"): ("GEO",)}, {field("Person.name"): ("PII",)})
    tagged = parsed(SchemaType.AVRO, parsed(SchemaType.AVRO, AVRO).with_tags(change))
    assert tagged.tags() == {record("geo.Address"): ("GEO",)}


def test_a_field_of_a_oneof_has_two_paths_and_what_else_is_in_an_option_stays() -> None:
    change = TagChange(
        {field("shop.Person.pay.iban"): ("MONEY",), field("shop.Person.Address.street"): ("PII",)}
    )
    text = parsed(SchemaType.PROTOBUF, PROTOBUF).with_tags(change)
    tags = parsed(SchemaType.PROTOBUF, text).tags()
    assert tags[field("shop.Person.iban")] == ("MONEY",)
    assert tags[field("shop.Person.Address.street")] == ("GEO", "PII")
    assert 'doc: "where"' in text


def test_the_import_of_tags_is_added_to_protobuf() -> None:
    text = 'syntax = "proto3"; message M { string a = 1; }'
    tagged = parsed(SchemaType.PROTOBUF, text).with_tags(TagChange({field("M.a"): ("PII",)}))
    assert 'import "confluent/meta.proto";' in tagged
    assert parsed(SchemaType.PROTOBUF, tagged).tags() == {field("M.a"): ("PII",)}


@pytest.mark.parametrize(
    ("kind", "text", "path"),
    [
        (SchemaType.AVRO, AVRO, "shop.Person.none"),
        (SchemaType.AVRO, '"string"', "a.b"),
        (SchemaType.JSON, JSON, "object.homes.object.street"),
        (SchemaType.JSON, "true", "object"),
        (SchemaType.PROTOBUF, PROTOBUF, "Person.name"),
    ],
)
def test_what_a_schema_does_not_have_is_refused(kind: SchemaType, text: str, path: str) -> None:
    with pytest.raises(InvalidSchema, match="No matching path"):
        parsed(kind, text).with_tags(TagChange({field(path): ("PII",)}))


def test_tags_of_an_earlier_version_stay_on_what_is_still_there() -> None:
    text = '{"type":"record","name":"shop.Person","fields":[{"name":"name","type":"string"}]}'
    change = TagChange(
        keep={field("shop.Person.name"): ("PII",), field("shop.Person.gone"): ("X",)}
    )
    tagged = parsed(SchemaType.AVRO, parsed(SchemaType.AVRO, text).with_tags(change))
    assert tagged.tags() == {field("shop.Person.name"): ("PII",)}


def test_long_names_and_many_tags_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The paths of a long name with many fields below it would take gigabytes."""
    inner = {f"f{number}": {"confluent:tags": ["T"]} for number in range(1000)}
    name = "n" * 2000
    deep = {"properties": {name: {"properties": {name: {"properties": inner}}}}}
    assert parsed(SchemaType.JSON, json.dumps(deep)).tags() == {}
    monkeypatch.setattr(tag, "MAX_TAGGED", 100)
    with pytest.raises(InvalidSchema, match="more than 100"):
        parsed(SchemaType.JSON, json.dumps({"properties": inner})).tags()
