"""Debezium's envelope."""

import json
from decimal import Decimal
from typing import Any

import pytest

from headrace.ingest.cdc.envelope import NEW_KEY_HEADER, OLD_KEY_HEADER, Envelope, EnvelopeOptions
from headrace.ingest.cdc.json_value import connect, decimal_type, quoted, unscaled
from headrace.ingest.cdc.postgres.source_block import SOURCE_SCHEMA, SourceBlock
from headrace.ingest.cdc.table import UNCHANGED, Column, ColumnType, Table
from headrace.ingest.cdc.topic_name import topic_of
from headrace.ingest.event import TOMBSTONE_HEADER, Event

INT = ColumnType(str, connect("int32"))
TEXT = ColumnType(quoted, connect("string"), '"?"')
TABLE = Table(
    "public", "t", "p.public.t", [Column("id", INT, False), Column("name", TEXT)], key=[0]
)
SOURCE = SourceBlock("1", "p", "db").write(
    "public", "t", micros=1_000_001, lsn=7, xid=3, last_commit=5
)


def envelope(**options: Any) -> Envelope:
    return Envelope(EnvelopeOptions("p", SOURCE_SCHEMA, **options))


def body(event: Event) -> Any:
    return json.loads(event.body)


def test_an_insert_has_the_fields_of_debezium() -> None:
    (event,) = envelope().insert(TABLE, [1, 'a"b'], SOURCE)
    assert event.headers == {"topic": "p.public.t", "key": '{"id":1}'}
    value = body(event)
    fields = ["before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"]
    assert list(value) == fields
    assert (value["before"], value["after"], value["op"]) == (None, {"id": 1, "name": 'a"b'}, "c")
    assert value["source"] == {
        "version": "1",
        "connector": "postgresql",
        "name": "p",
        "ts_ms": 1000,
        "snapshot": "false",
        "db": "db",
        "sequence": '["5","7"]',
        "ts_us": 1_000_001,
        "ts_ns": 1_000_001_000,
        "schema": "public",
        "table": "t",
        "txId": 3,
        "lsn": 7,
        "xmin": None,
        "origin": None,
        "origin_lsn": None,
    }


def test_a_delete_is_followed_by_a_tombstone() -> None:
    deleted, tombstone = envelope().delete(TABLE, [1, None], SOURCE)
    assert body(deleted)["after"] is None
    assert tombstone.body == b"" and TOMBSTONE_HEADER in tombstone.headers
    assert tombstone.headers["key"] == deleted.headers["key"]
    assert len(envelope(tombstones=False).delete(TABLE, [1, None], SOURCE)) == 1


def test_what_was_not_sent_of_a_deleted_row_fits_its_schema() -> None:
    columns = [
        Column("id", INT, False),
        Column("name", TEXT),
        Column("count", INT, False),
        Column("size", INT, False, default="3"),
        Column("price", decimal_type("precise", None, None), False),
    ]
    table = Table("public", "t", "p.public.t", columns, key=[0])
    row = [1, None, None, None, None]
    deleted, _ = envelope(schemas=True).delete(table, row, SOURCE, key_only=True)
    value = body(deleted)
    price = {"scale": 0, "value": "AA=="}
    assert value["payload"]["before"] == {
        "id": 1,
        "name": None,
        "count": 0,
        "size": 3,
        "price": price,
    }
    fields = {each["field"]: each for each in value["schema"]["fields"][0]["fields"]}
    assert fields["size"]["default"] == 3
    assert "default" not in fields["count"]


def test_null_is_null_in_rows_that_were_sent_whole() -> None:
    # NOT NULL is the catalog's of now, and the rows are older.
    columns = [Column("id", INT, False), Column("size", INT, False, default="3")]
    table = Table("public", "t", "p.public.t", columns, key=[0])
    row, other = [1, None], [2, None]
    (inserted,) = envelope().insert(table, row, SOURCE)
    (read,) = envelope().insert(table, row, SOURCE, op="r")
    (updated,) = envelope().update(table, row, row, SOURCE)
    (keyed,) = envelope().update(table, row, row, SOURCE, key_only=True)
    deleted, _ = envelope().delete(table, row, SOURCE)
    moved, _, created = envelope().update(table, row, other, SOURCE, key_only=True)
    null = {"id": 1, "size": None}
    for whole in (inserted, read, updated, keyed):
        assert body(whole)["after"] == null
    assert body(created)["after"] == {"id": 2, "size": None}
    assert body(updated)["before"] == body(deleted)["before"] == null
    assert body(keyed)["before"] == body(moved)["before"] == {"id": 1, "size": 3}


def test_a_changed_key_is_a_delete_and_a_create() -> None:
    deleted, tombstone, created = envelope().update(TABLE, [1, None], [2, UNCHANGED], SOURCE)
    assert [body(deleted)["op"], body(created)["op"]] == ["d", "c"]
    assert deleted.headers[NEW_KEY_HEADER] == tombstone.headers[NEW_KEY_HEADER] == '{"id":2}'
    assert created.headers[OLD_KEY_HEADER] == '{"id":1}'
    assert tombstone.headers["key"] == '{"id":1}'
    assert body(created)["after"] == {"id": 2, "name": "?"}


def test_a_table_without_a_key_has_records_without_one() -> None:
    keyless = Table("public", "t", "p.public.t", TABLE.columns, key=[])
    events = envelope().delete(keyless, [1, None], SOURCE)
    assert ["key" in event.headers for event in events] == [False]


@pytest.mark.parametrize("op", ["c", "u", "d", "t"])
def test_skipped_operations_have_no_events(op: str) -> None:
    writer = envelope(skipped=frozenset(op))
    found = {
        "c": writer.insert(TABLE, [1, None], SOURCE),
        "u": writer.update(TABLE, None, [1, None], SOURCE),
        "d": writer.delete(TABLE, [1, None], SOURCE),
        "t": writer.truncate(TABLE, SOURCE),
    }
    assert [each for each, events in found.items() if not events] == [op]


def test_schemas_describe_the_payload() -> None:
    (event,) = envelope(schemas=True).insert(TABLE, [1, "a"], SOURCE)
    key, value = json.loads(event.headers["key"]), body(event)
    assert key["payload"] == {"id": 1}
    assert key["schema"]["name"] == "p.public.t.Key"
    assert value["schema"]["name"] == "p.public.t.Envelope"
    described = {each["field"]: each for each in value["schema"]["fields"]}
    assert set(described) == set(value["payload"])
    assert [(each["field"], each["optional"]) for each in described["after"]["fields"]] == [
        ("id", False),
        ("name", True),
    ]
    source = {each["field"] for each in described["source"]["fields"]}
    assert source == set(value["payload"]["source"])


def test_numbers_are_twos_complement() -> None:
    assert unscaled(Decimal("1.28"), 2) == b"\x00\x80"
    assert unscaled(Decimal("-1"), 3) == b"\xfc\x18"
    assert unscaled(Decimal("0"), 0) == b"\x00"
    assert decimal_type("precise", 5, 2).to_json("NaN") == "null"
    assert decimal_type("string", 5, 2).to_json("1.20") == '"1.20"'
    assert decimal_type("precise", None, None).to_json("1.10") == '{"scale":1,"value":"Cw=="}'
    assert decimal_type("precise", None, None).to_json("0.00") == '{"scale":0,"value":"AA=="}'
    assert decimal_type("precise", None, None).to_json("100") == '{"scale":0,"value":"ZA=="}'
    assert decimal_type("double", 5, 2).to_json("1.20") == "1.2"


def test_topics_have_only_characters_of_topics() -> None:
    assert topic_of("p", "my schema", "täble") == "p.my_schema.t_ble"


def test_events_of_transactions_carry_their_schemas_too() -> None:
    counts = [("public.t", 2)]
    event = envelope(schemas=True).transaction_event("END", "3:7", 1000, counts)
    key, value = json.loads(event.headers["key"]), body(event)
    assert key["schema"]["name"] == "io.debezium.connector.common.TransactionMetadataKey"
    assert key["payload"] == {"id": "3:7"}
    assert [each["field"] for each in value["schema"]["fields"]] == list(value["payload"])
    assert value["payload"]["event_count"] == 2
