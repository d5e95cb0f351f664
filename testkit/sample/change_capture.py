"""Captured tables: the events in their topics, and the tables rebuilt from them."""

import json
from typing import Any, NamedTuple

from headrace.client.error import ClientError
from headrace.client.read.reader import Reader

WIRING = """\
a1.sources = r1
a1.channels = c1
a1.sinks = k1
a1.sources.r1.channels = c1
a1.channels.c1.type = memory
a1.channels.c1.capacity = 5000
a1.channels.c1.transactionCapacity = 1000
a1.sinks.k1.type = kafka
a1.sinks.k1.kafka.bootstrap.servers = {broker}
a1.sinks.k1.kafka.transactional.id = {id}
a1.sinks.k1.flumeBatchSize = 500
a1.sinks.k1.header.__debezium.newkey = __debezium.newkey
a1.sinks.k1.header.__debezium.oldkey = __debezium.oldkey
a1.sinks.k1.channel = c1
"""


class CapturedRecord(NamedTuple):
    """A record of a table's topic; `value` is None for a tombstone."""

    key: dict[str, Any] | None
    value: dict[str, Any] | None
    headers: dict[str, str]

    @property
    def op(self) -> str:
        return "" if self.value is None else str(self.value["op"])


def records_of(broker: str, topic: str) -> list[CapturedRecord]:
    """Return the committed records of a topic in their order; none without the topic."""
    try:
        with Reader.of_topics(
            {"bootstrap.servers": broker},
            topic,
            read_committed=True,
            columns=["key", "value", "headers"],
        ) as reader:
            table = reader.read_all()
    except ClientError:
        return []
    columns = [table[name].to_pylist() for name in ("key", "value", "headers")]
    return [
        CapturedRecord(
            None if key is None else json.loads(key),
            None if value is None else json.loads(value),
            {each["key"]: each["value"].decode() for each in headers or ()},
        )
        for key, value, headers in zip(*columns, strict=True)
    ]


def rebuilt(records: list[CapturedRecord]) -> dict[str, dict[str, Any]]:
    """Return the rows that a topic's records leave, by their keys."""
    rows: dict[str, dict[str, Any]] = {}
    for record in records:
        if record.op == "t":
            rows.clear()
            continue
        key = json.dumps(record.key)
        if record.value is None or record.value["after"] is None:
            rows.pop(key, None)
        else:
            rows[key] = record.value["after"]
    return rows
