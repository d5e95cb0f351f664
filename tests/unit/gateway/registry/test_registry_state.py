"""Claims of leaders, late records, ids, and that every reader comes to the same state."""

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headrace.gateway.registry.state.record import (
    Record,
    clear_subject_record,
    delete_subject_record,
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

NOOP_KEY = b'{"keytype":"NOOP","magic":0}'


def schema(subject: str, version: int, schema_id: int, text: str) -> Record:
    return schema_record(StoredSchema(subject, version, schema_id, SchemaType.AVRO, text))


def log_record(offset: int, record: Record, claim: int | None = None) -> LogRecord:
    value = None if record.value is None else write_json(record.value)
    return LogRecord(offset, write_key(record.key), value, claim=claim)


def claim(offset: int, number: int | None = None) -> LogRecord:
    number = offset if number is None else number
    return LogRecord(offset, NOOP_KEY, None, claim=number, is_claim=True)


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
    corrections = [each for key in state.late for each in state.records_of(key)]
    assert [each.value and each.value.get("schema") for each in corrections] == ['"long"', None]
    for offset, each in enumerate(corrections, 6):
        assert state.apply(log_record(offset, each, 2)) is Outcome.APPLIED
    assert not state.late


def test_a_copy_of_the_topic_at_other_offsets_is_the_same() -> None:
    state = RegistryState()
    state.apply(claim(500, 7))
    assert state.apply(log_record(501, schema("a", 1, 1, '"int"'), 7)) is Outcome.APPLIED
    state.apply(claim(502, 9))
    assert state.apply(log_record(503, schema("a", 2, 2, '"long"'), 7)) is Outcome.LATE
    assert state.apply(log_record(504, schema("a", 2, 3, '"string"'), 9)) is Outcome.APPLIED


def test_a_claim_whose_number_is_taken_comes_too_late() -> None:
    state = RegistryState()
    assert state.apply(claim(0, 4)) is Outcome.APPLIED
    assert state.apply(claim(1, 4)) is Outcome.LATE
    assert state.apply(claim(2, 5)) is Outcome.APPLIED
    assert state.highest_claim == 5


def test_a_late_end_of_a_subject_is_answered_with_all_its_versions() -> None:
    state, other = RegistryState(), RegistryState()
    log = [
        claim(0),
        log_record(1, schema("a", 1, 1, '"int"'), 0),
        log_record(2, schema("a", 2, 2, '"long"'), 0),
        claim(3),
        log_record(4, delete_subject_record("a", 2), 0),
    ]
    assert [state.apply(each) for each in log][-1] is Outcome.LATE
    answers = [each for key in state.late for each in state.records_of(key)]
    assert not state.late or len(answers) == 3
    log += [log_record(offset, each, 3) for offset, each in enumerate(answers, 5)]
    for each in log[5:]:
        assert state.apply(each) is Outcome.APPLIED
    assert not state.late
    for each in log:  # one that knows no claims
        other.apply(LogRecord(each.offset, each.key, each.value))
    assert [each.version for each in other.versions("a")] == [1, 2]


def test_the_highest_id_outlives_its_schema_and_compaction() -> None:
    state = RegistryState()
    state.apply(log_record(0, schema(":.eu:a", 1, 4, '"int"')))
    kept = state.keep_highest_id(".eu")
    state.apply(log_record(1, kept[0]))
    state.apply(log_record(2, schema_tombstone(":.eu:a", 1)))
    assert state.keep_highest_id(".eu") == []
    # What a topic still has after compaction, in which a NOOP is written all the time.
    again = RegistryState()
    assert again.apply(log_record(1, kept[0])) is Outcome.APPLIED
    assert again.apply(claim(3)) is Outcome.APPLIED
    assert (again.max_id(".eu"), again.max_id(".")) == (4, 0)
    # Other registries must take the key for a NOOP, and compaction must not.
    assert json.loads(write_key(kept[0].key)) == json.loads(NOOP_KEY)
    assert write_key(kept[0].key) != NOOP_KEY


def test_clearing_the_default_context_leaves_the_others_alone() -> None:
    state = RegistryState()
    for offset, name in enumerate(("a", ":.eu:a")):
        deleted = StoredSchema(name, 1, 1, SchemaType.AVRO, '"int"', deleted=True)
        state.apply(log_record(offset, schema_record(deleted)))
    state.apply(log_record(2, clear_subject_record(None)))
    assert state.subjects(":*:", deleted=True) == [":.eu:a"]


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
