"""Records of `_schemas` as Confluent's and Karapace's registries write them."""

import pytest

from headrace.gateway.registry.state.record import (
    NOOP,
    KeyType,
    RecordKey,
    clear_subject_record,
    config_record,
    context_record,
    delete_subject_record,
    mode_record,
    read_key,
    read_schema,
    read_value,
    schema_record,
    write_json,
    write_key,
)
from headrace.gateway.registry.state.registry_state import LogRecord, Outcome, RegistryState
from headrace.gateway.registry.state.stored_schema import StoredSchema, schema_guid
from headrace.schema.schema import Reference, SchemaType

STRING = '"string"'

CONFLUENT = [
    (b'{"keytype":"NOOP","magic":0}', None),
    (
        b'{"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}',
        b'{"subject":"orders-value","version":1,"id":1,"schema":"\\"string\\"","deleted":false}',
    ),
    (
        b'{"keytype":"SCHEMA","subject":"users-value","version":1,"magic":1}',
        b'{"subject":"users-value","version":1,"id":2,"md5":"AAAAAAAAAAAAAAAAAAAAAA==",'
        b'"schemaType":"JSON","references":[{"name":"o","subject":"orders-value","version":1}],'
        b'"metadata":{"properties":{"owner":"ann"}},'
        b'"ruleSet":{"domainRules":[{"name":"r","kind":"CONDITION","mode":"WRITE","type":"CEL",'
        b'"expr":"true","disabled":false}]},"schema":"{\\"type\\":\\"object\\"}","deleted":false}',
    ),
    (b'{"keytype":"CONFIG","magic":0}', b'{"compatibilityLevel":"FULL"}'),
    (
        b'{"keytype":"CONFIG","subject":"orders-value","magic":0}',
        b'{"subject":"orders-value","compatibilityLevel":"NONE","alias":"other"}',
    ),
    (b'{"keytype":"MODE","magic":0}', b'{"mode":"READONLY"}'),
    (
        b'{"keytype":"MODE","subject":"orders-value","magic":0}',
        b'{"subject":"orders-value","mode":"IMPORT"}',
    ),
    (
        b'{"keytype":"CONTEXT","tenant":"default","context":".eu","magic":0}',
        b'{"tenant":"default","context":".eu"}',
    ),
    (
        b'{"keytype":"SCHEMA","subject":":.eu:orders-value","version":1,"magic":1}',
        b'{"subject":":.eu:orders-value","version":1,"id":1,"schema":"\\"int\\"","deleted":false}',
    ),
    (
        b'{"keytype":"DELETE_SUBJECT","subject":"orders-value","magic":0}',
        b'{"subject":"orders-value","version":1}',
    ),
    (
        b'{"keytype":"CLEAR_SUBJECT","subject":"orders-value","magic":0}',
        b'{"subject":"orders-value"}',
    ),
    (b'{"keytype":"DEK","kekName":"k","magic":0}', b'{"anything":true}'),
]
"""One record of each kind, in the order of a topic."""

KARAPACE = [
    (
        b'{"keytype":"SCHEMA","subject":"clicks","version":1,"magic":1}',
        b'{"subject":"clicks","version":1,"id":1,"schema":"{\\"type\\": \\"string\\"}",'
        b'"deleted":false}',
    ),
    # Its older releases wrote the members of a key in another order.
    (
        b'{"subject":"clicks","version":2,"magic":1,"keytype":"SCHEMA"}',
        b'{"subject":"clicks","version":2,"id":2,"schema":"syntax = \\"proto3\\";",'
        b'"deleted":false,"schemaType":"PROTOBUF"}',
    ),
    (b'{"subject":"clicks","magic":0,"keytype":"CONFIG"}', b'{"compatibilityLevel":"FORWARD"}'),
    (
        b'{"subject":null,"magic":0,"keytype":"CONFIG"}',
        b'{"compatibilityLevel":"BACKWARD_TRANSITIVE"}',
    ),
    # A permanent deletion has a value without bytes.
    (b'{"keytype":"SCHEMA","subject":"clicks","version":1,"magic":1}', b""),
]


def read_topic(records: list[tuple[bytes, bytes | None]]) -> tuple[RegistryState, list[Outcome]]:
    state = RegistryState()
    outcomes = [
        state.apply(LogRecord(offset, key, value)) for offset, (key, value) in enumerate(records)
    ]
    return state, outcomes


def test_a_topic_of_confluents_registry() -> None:
    state, outcomes = read_topic(CONFLUENT)
    assert outcomes == [Outcome.APPLIED] * 11 + [Outcome.UNKNOWN_TYPE]
    assert state.subjects(":*:") == [":.eu:orders-value", "users-value"]
    assert state.version("orders-value", 1) is None  # deleted, then cleared
    users = state.version("users-value", 1)
    assert users is not None
    assert users.type is SchemaType.JSON
    assert users.references == (Reference("o", "orders-value", 1),)
    assert users.metadata == {"properties": {"owner": "ann"}}
    assert users.rule_set is not None
    assert state.configs == {
        None: {"compatibilityLevel": "FULL"},
        "orders-value": {"compatibilityLevel": "NONE", "alias": "other"},
    }
    assert state.modes == {None: "READONLY", "orders-value": "IMPORT"}
    assert state.contexts() == [".", ".eu"]


def test_a_topic_of_karapace() -> None:
    state, outcomes = read_topic(KARAPACE)
    assert outcomes == [Outcome.APPLIED] * 5
    assert [each.version for each in state.versions("clicks")] == [2]
    assert state.configs[None] == {"compatibilityLevel": "BACKWARD_TRANSITIVE"}
    assert state.configs["clicks"] == {"compatibilityLevel": "FORWARD"}


@pytest.mark.parametrize("key", [key for key, _ in CONFLUENT[:-1]])
def test_keys_are_written_with_the_bytes_that_were_read(key: bytes) -> None:
    read = read_key(key)
    assert read is not None
    assert write_key(read) == key


def test_values_are_written_as_confluent_reads_them() -> None:
    schema = StoredSchema("s", 2, 7, SchemaType.PROTOBUF, "x", (Reference("a", "b", 1),))
    record = schema_record(schema)
    assert record.value is not None
    assert write_json(record.value) == (
        b'{"subject":"s","version":2,"id":7,"guid":"' + schema.guid.encode() + b'",'
        b'"schemaType":"PROTOBUF","references":[{"name":"a","subject":"b","version":1}],'
        b'"schema":"x","deleted":false}'
    )
    assert read_schema(record.key, record.value, None) == schema
    pairs = [
        (mode_record("s", "IMPORT"), b'{"subject":"s","mode":"IMPORT"}'),
        (mode_record(None, "IMPORT"), b'{"mode":"IMPORT"}'),
        (config_record("s", {"compatibilityLevel": "FULL"}),
         b'{"subject":"s","compatibilityLevel":"FULL"}'),
        (delete_subject_record("s", 3), b'{"subject":"s","version":3}'),
        (clear_subject_record("s"), b'{"subject":"s"}'),
        (context_record(".eu"), b'{"tenant":"default","context":".eu"}'),
    ]  # fmt: skip
    for record, data in pairs:
        assert record.value is not None
        assert write_json(record.value) == data
    assert NOOP.value is None


@pytest.mark.parametrize(
    "key",
    [b"", b"x", b"[]", b'"a"', b'{"keytype":"SCHEMA"}', b'{"keytype":"SCHEMA","subject":5}',
     b"\xff", b'{"keytype":"SCHEMA","subject":"s","version":0,"magic":1}', b"[" * 100_000],
)  # fmt: skip
def test_what_is_no_key_is_passed_over(key: bytes) -> None:
    assert RegistryState().apply(LogRecord(0, key, b"{}")) is Outcome.UNREADABLE


@pytest.mark.parametrize(
    "value",
    [b"x", b"[]", b"{}", b'{"id":"1","schema":"x"}', b'{"id":1,"schema":"x","references":5}',
     b'{"id":1,"schema":"x","schemaType":"XML"}', b'{"id":1,"schema":"x","metadata":[]}'],
)  # fmt: skip
def test_what_is_no_schema_is_passed_over(value: bytes) -> None:
    key = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'
    state = RegistryState()
    assert state.apply(LogRecord(0, key, value)) is Outcome.UNREADABLE
    assert state.subjects("") == []


def test_unknown_types_and_tombstones() -> None:
    assert read_key(b'{"keytype":"KEK","magic":0}') is None
    assert read_key(b'{"keytype":"NOOP","magic":0}') == RecordKey(KeyType.NOOP)
    assert read_value(b"") is None
    assert read_value(b"null") is None
    assert read_value(None) is None


def test_guids_are_those_that_confluent_computes() -> None:
    # Pinned by Confluent's own tests, as signed bytes.
    text = (
        '{"type":"record","name":"myrecord","fields":[{"type":"string","default":null,"name":"f"}]}'
    )
    plain = [29, 32, -53, -71, -27, -29, 94, -105, 84, -25, -38, 23, 11, 110, 93, -37]
    assert (
        schema_guid(text, (), None, None).replace("-", "")
        == bytes(each % 256 for each in plain).hex()
    )
    with_rule = [22, -15, -20, -91, -21, -7, 34, -77, -38, -128, 33, 47, -113, -89, 52, 46]
    rules = {"migrationRules": [{"kind": "TRANSFORM", "mode": "WRITEREAD"}]}
    assert (
        schema_guid(text, (), {}, rules).replace("-", "")
        == bytes(each % 256 for each in with_rule).hex()
    )
