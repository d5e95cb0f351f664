"""Claims of leaders, late records, ids, and that every reader comes to the same state."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.gateway.registry.state.record import (
    Record,
    mode_record,
    schema_record,
    schema_tombstone,
    write_json,
    write_key,
)
from headrace.gateway.registry.state.registry_state import LogRecord, Outcome, RegistryState
from headrace.gateway.registry.state.stored_schema import StoredSchema
from headrace.gateway.registry.store.schema_tail import CLAIM_HEADER, read_claim, read_rows
from headrace.records.column import HEADERS
from headrace.records.decode import decode
from headrace.records.encode import encode
from headrace.schema.schema import SchemaType


def schema(subject: str, version: int, schema_id: int, text: str) -> Record:
    return schema_record(StoredSchema(subject, version, schema_id, SchemaType.AVRO, text))


def log_record(offset: int, record: Record, claim: int | None = None) -> LogRecord:
    value = None if record.value is None else write_json(record.value)
    return LogRecord(offset, write_key(record.key), value, claim=claim)


def claim(offset: int) -> LogRecord:
    return LogRecord(offset, b'{"keytype":"NOOP","magic":0}', None, is_claim=True)


def test_a_record_of_an_earlier_leader_comes_too_late() -> None:
    state = RegistryState()
    assert state.apply(claim(0)) is Outcome.APPLIED
    assert state.apply(log_record(1, schema("a", 1, 1, '"int"'), 0)) is Outcome.APPLIED
    assert state.apply(claim(2)) is Outcome.APPLIED
    assert state.apply(log_record(3, schema("a", 2, 2, '"long"'), 2)) is Outcome.APPLIED
    assert state.apply(log_record(4, schema("a", 2, 2, '"string"'), 0)) is Outcome.LATE
    assert state.apply(log_record(5, mode_record(None, "READONLY"), 0)) is Outcome.LATE
    latest = state.latest("a")
    assert latest is not None
    assert latest.text == '"long"'
    # What the leader writes over them holds for those who know no claims, too.
    corrections = [state.record_of(key) for key in state.late]
    assert [each.value and each.value.get("schema") for each in corrections] == ['"long"', None]
    for offset, each in enumerate(corrections, 6):
        assert state.apply(log_record(offset, each, 2)) is Outcome.APPLIED
    assert not state.late


def test_records_of_other_registries_always_count() -> None:
    state = RegistryState()
    state.apply(claim(5))
    assert state.apply(log_record(6, schema("a", 1, 1, '"int"'))) is Outcome.APPLIED


def test_an_id_is_never_given_to_another_schema() -> None:
    state = RegistryState()
    state.apply(log_record(0, schema("a", 1, 1, '"int"')))
    assert state.apply(log_record(1, schema("b", 1, 1, '"long"'))) is Outcome.DUPLICATE_ID
    assert state.subjects("") == ["a"]
    assert state.apply(log_record(2, schema("b", 1, 1, '"int"'))) is Outcome.APPLIED
    assert state.apply(log_record(3, schema(":.eu:b", 1, 1, '"long"'))) is Outcome.APPLIED


def test_ids_count_on_after_an_end() -> None:
    state = RegistryState()
    state.apply(log_record(0, schema("a", 1, 4, '"int"')))
    state.apply(log_record(1, schema_tombstone("a", 1)))
    assert state.max_id(".") == 4
    assert list(state.by_id(4)) == []


def test_versions_are_in_order_however_they_come() -> None:
    state = RegistryState()
    for version in (3, 1, 2):
        state.apply(log_record(version, schema("a", version, version, f'"t{version}"')))
    assert [each.version for each in state.versions("a")] == [1, 2, 3]
    latest = state.latest("a")
    assert latest is not None
    assert latest.version == 3


@pytest.mark.parametrize("offset", range(3))
def test_a_record_twice_changes_nothing(offset: int) -> None:
    records = [
        log_record(0, schema("a", 1, 1, '"int"')),
        log_record(1, schema("a", 2, 2, '"long"')),
        log_record(2, mode_record("a", "READONLY")),
    ]
    once, twice = RegistryState(), RegistryState()
    for each in records:
        once.apply(each)
        twice.apply(each)
        if each.offset == offset:
            twice.apply(each)
    assert once.versions("a") == twice.versions("a")
    assert once.modes == twice.modes
    assert once.max_id(".") == twice.max_id(".")


SCHEMA_KEY = {"keytype": "SCHEMA", "subject": "a", "version": 1, "magic": 1}
DELETE_KEY = {"keytype": "DELETE_SUBJECT", "subject": "a", "magic": 0}
INT = {"id": 1, "schema": '"string"'}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (DELETE_KEY, {"subject": "a"}),
        (DELETE_KEY, {"subject": "a", "version": None}),
        (DELETE_KEY, {"subject": "a", "version": []}),
        (SCHEMA_KEY, INT | {"metadata": {"properties": {"a": 1}}}),
        (SCHEMA_KEY, INT | {"metadata": {"properties": ["a"]}}),
        (SCHEMA_KEY, INT | {"metadata": {"tags": {"a": 1}}}),
        (SCHEMA_KEY, INT | {"references": [{"name": "a", "subject": "b", "version": 2**40}]}),
        (SCHEMA_KEY, INT | {"ruleSet": {"domainRules": ["x"]}}),
        (SCHEMA_KEY, INT | {"ruleSet": {"domainRules": 7}}),
        (SCHEMA_KEY, {"id": 1, "schema": '"\ud800"'}),
        (SCHEMA_KEY, {"id": 2**31, "schema": '"string"'}),
        (SCHEMA_KEY, {"id": -5, "schema": '"string"'}),
        (SCHEMA_KEY, {"id": True, "schema": '"string"'}),
        (SCHEMA_KEY | {"version": 2**31}, INT),
        (SCHEMA_KEY | {"subject": "\ud800"}, INT),
        ({"keytype": "CONFIG", "subject": "a", "magic": 0}, {"alias": "\ud800"}),
    ],
)
def test_a_record_that_cannot_be_read_changes_nothing(key: Any, value: Any) -> None:
    state = RegistryState()
    state.apply(log_record(0, schema("a", 1, 1, '"int"')))
    before = (state.versions("a"), state.subjects(""), state.max_id("."), dict(state.configs))
    bad = LogRecord(1, json.dumps(key).encode(), json.dumps(value).encode())
    assert state.apply(bad) is Outcome.UNREADABLE
    after = (state.versions("a"), state.subjects(""), state.max_id("."), dict(state.configs))
    assert after == before
    assert [each.text for each in state.by_id(1)] == ['"int"']
    assert state.apply(log_record(2, schema_tombstone("a", 1))) is Outcome.APPLIED
    assert state.subjects("") == []


def test_times_and_headers_need_not_be_dates_and_texts() -> None:
    name = pa.array([b"\xff\xfe", CLAIM_HEADER.encode()], pa.binary()).view(pa.string())
    items = pa.StructArray.from_arrays(
        [name, pa.array([b"", b"7"], pa.binary())], fields=list(HEADERS.value_type)
    )
    columns = pa.record_batch(
        {
            "key": pa.array([b"k"], pa.binary()),
            "value": pa.array([b"v"], pa.binary()),
            "timestamp": pa.array(np.array([2**60]), pa.int64()).view(pa.timestamp("ms", "UTC")),
            "headers": pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), items),
        }
    )
    decoded = decode(
        encode(columns, timestamp_ms=0).data,
        columns=["offset", "timestamp", "key", "value", "headers"],
    )
    ((offset, ts, key, value, headers),) = read_rows(decoded.columns)
    assert (offset, ts, key, value) == (0, 2**60, b"k", b"v")
    assert read_claim(headers) == (7, False)
