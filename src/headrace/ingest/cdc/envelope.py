"""Changes as events in Debezium's envelope.

A change becomes one to three events: the envelope; after a delete a tombstone; and an update that
changes the primary key becomes a delete, a tombstone and a create, with the other key in a header.
The events carry the topic and the key in headers, where the kafka sink finds them.
"""

import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from headrace.ingest.cdc.table import Row, Table, json_text
from headrace.ingest.cdc.topic_name import schema_name, transaction_topic
from headrace.ingest.event import TOMBSTONE_HEADER, Event, Headers

NEW_KEY_HEADER: Final = "__debezium.newkey"
OLD_KEY_HEADER: Final = "__debezium.oldkey"
_TIMES: Final = ("ts_ms", "ts_us", "ts_ns")
_TRANSACTION_SCHEMA: Final = {
    "type": "struct",
    "fields": [
        {"type": "string", "optional": False, "field": "id"},
        {"type": "int64", "optional": False, "field": "total_order"},
        {"type": "int64", "optional": False, "field": "data_collection_order"},
    ],
    "optional": True,
    "name": "event.block",
    "version": 1,
    "field": "transaction",
}
_METADATA: Final = "io.debezium.connector.common.TransactionMetadata"
_METADATA_KEY_SCHEMA: Final = {
    "type": "struct",
    "fields": [{"type": "string", "optional": False, "field": "id"}],
    "optional": False,
    "name": f"{_METADATA}Key",
    "version": 1,
}
_METADATA_SCHEMA: Final = {
    "type": "struct",
    "fields": [
        {"type": "string", "optional": False, "field": "status"},
        {"type": "string", "optional": False, "field": "id"},
        {"type": "int64", "optional": True, "field": "event_count"},
        {
            "type": "array",
            "items": {
                "type": "struct",
                "fields": [
                    {"type": "string", "optional": False, "field": "data_collection"},
                    {"type": "int64", "optional": False, "field": "event_count"},
                ],
                "optional": False,
                "name": "event.collection",
                "version": 1,
            },
            "optional": True,
            "field": "data_collections",
        },
        {"type": "int64", "optional": False, "field": "ts_ms"},
    ],
    "optional": False,
    "name": f"{_METADATA}Value",
    "version": 1,
}


class EnvelopeOptions(NamedTuple):
    """How changes become events, with Debezium's names and defaults.

    Attributes:
        prefix: `topic.prefix`, the first part of every topic and `source.name`.
        source_schema: Connect's schema of the source block.
        tombstones: a delete is followed by a record without a value.
        schemas: `schemas.enable`: keys and values carry their schemas.
        skipped: the operations without events: c, u, d, t.
    """

    prefix: str
    source_schema: dict[str, Any]
    tombstones: bool = True
    schemas: bool = False
    skipped: frozenset[str] = frozenset("t")


class Envelope:
    """Writes the events of changes.

    The argument `source` is the JSON text of the source block, and `transaction` that of the
    transaction block, `null` without transaction metadata.
    """

    def __init__(self, options: EnvelopeOptions) -> None:
        self._options = options
        # By table: the text before the payload of a value and of a key; empty without schemas.
        self._heads: dict[int, tuple[Table, str, str]] = {}

    def insert(
        self, table: Table, row: Row, source: str, transaction: str = "null", op: str = "c"
    ) -> list[Event]:
        """Return the events of a new row; `op` is r in a snapshot."""
        if op in self._options.skipped:
            return []
        key = self._key(table, row)
        return [self._event(table, key, op, "null", table.row_json(row), source, transaction)]

    def update(
        self,
        table: Table,
        before: Row | None,
        after: Row,
        source: str,
        transaction: str = "null",
        *,
        key_only: bool = False,
    ) -> list[Event]:
        """Return the events of an update. `before` holds what the database sent of the old row,
        which is the whole row or, with `key_only`, its key."""
        if "u" in self._options.skipped:
            return []
        key = self._key(table, after)
        old, new = table.row_json(before, key_only=key_only), table.row_json(after)
        if before is None or key is None or (old_key := self._key(table, before)) == key:
            return [self._event(table, key, "u", old, new, source, transaction)]
        assert old_key is not None
        removed = self._event(table, old_key, "d", old, "null", source, transaction)
        created = self._event(table, key, "c", "null", new, source, transaction)
        return [
            *(
                Event({**each.headers, NEW_KEY_HEADER: key}, each.body)
                for each in (removed, *self._tombstone(table, old_key))
            ),
            Event({**created.headers, OLD_KEY_HEADER: old_key}, created.body),
        ]

    def delete(
        self,
        table: Table,
        before: Row,
        source: str,
        transaction: str = "null",
        *,
        key_only: bool = False,
    ) -> list[Event]:
        """Return the events of a deleted row, of which the database sent the key only with
        `key_only`."""
        if "d" in self._options.skipped:
            return []
        key = self._key(table, before)
        old = table.row_json(before, key_only=key_only)
        event = self._event(table, key, "d", old, "null", source, transaction)
        return [event, *(self._tombstone(table, key) if key is not None else ())]

    def truncate(self, table: Table, source: str, transaction: str = "null") -> list[Event]:
        """Return the event of a truncated table, which has no key."""
        if "t" in self._options.skipped:
            return []
        return [self._event(table, None, "t", "null", "null", source, transaction)]

    def transaction_event(
        self,
        status: str,
        identity: str,
        ts_ms: int,
        counts: Sequence[tuple[str, int]] | None = None,
    ) -> Event:
        """Return the event of a transaction's BEGIN or END; `counts` are its events by table."""
        value: dict[str, Any] = {
            "status": status,
            "id": identity,
            "event_count": None if counts is None else sum(count for _, count in counts),
            "data_collections": None
            if counts is None
            else [{"data_collection": name, "event_count": count} for name, count in counts],
            "ts_ms": ts_ms,
        }
        key: dict[str, Any] = {"id": identity}
        if self._options.schemas:
            key = {"schema": _METADATA_KEY_SCHEMA, "payload": key}
            value = {"schema": _METADATA_SCHEMA, "payload": value}
        headers = {"topic": transaction_topic(self._options.prefix), "key": json_text(key)}
        return Event(headers, json_text(value).encode())

    def _event(
        self,
        table: Table,
        key: str | None,
        op: str,
        before: str,
        after: str,
        source: str,
        transaction: str,
    ) -> Event:
        now = time.time_ns()
        value = (
            f'{{"before":{before},"after":{after},"source":{source},"transaction":{transaction},'
            f'"op":"{op}","ts_ms":{now // 1_000_000},"ts_us":{now // 1_000},"ts_ns":{now}}}'
        )
        if self._options.schemas:
            value = f"{self._head(table)[1]}{value}}}"
        headers: Headers = {"topic": table.topic}
        if key is not None:
            headers["key"] = key
        return Event(headers, value.encode("utf-8", "replace"))

    def _tombstone(self, table: Table, key: str) -> list[Event]:
        if not self._options.tombstones:
            return []
        return [Event({"topic": table.topic, "key": key, TOMBSTONE_HEADER: "true"}, b"")]

    def _key(self, table: Table, row: Row) -> str | None:
        key = table.key_json(row)
        if key is None or not self._options.schemas:
            return key
        return f"{self._head(table)[2]}{key}}}"

    def _head(self, table: Table) -> tuple[Table, str, str]:
        head = self._heads.get(id(table))
        if head is None or head[0] is not table:
            if len(self._heads) > 1000:
                self._heads.clear()
            value = '{"schema":' + json_text(self._value_schema(table)) + ',"payload":'
            key_schema = table.key_schema(schema_name(table.topic, "Key"))
            key = '{"schema":' + json_text(key_schema) + ',"payload":'
            head = self._heads[id(table)] = (table, value, key)
        return head

    def _value_schema(self, table: Table) -> dict[str, Any]:
        row = schema_name(table.topic, "Value")
        return {
            "type": "struct",
            "fields": [
                table.row_schema(row, field="before"),
                table.row_schema(row, field="after"),
                {**self._options.source_schema, "field": "source"},
                _TRANSACTION_SCHEMA,
                {"type": "string", "optional": False, "field": "op"},
                *({"type": "int64", "optional": True, "field": each} for each in _TIMES),
            ],
            "optional": False,
            "name": schema_name(table.topic, "Envelope"),
            "version": 2,
        }
