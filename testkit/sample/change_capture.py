"""Captured tables: the events in their topics, and the tables rebuilt from them."""

import json
import time
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from headrace.client.error import ClientError
from headrace.client.read.reader import Reader
from headrace.ingest.event import Event
from headrace.ingest.source import ReplayableSource
from testkit.sample.ingest_agent import RecordingProcessor, make

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


class CrashingCapture:
    """Runs a source of change capture without an agent, and lets it crash.

    What the source delivers waits, as in a memory channel, and is committed together with its
    marks, as the kafka sink does. A crash loses what waits.

    Attributes:
        log: the committed events, in order.
    """

    def __init__(self, kind: str, texts: dict[str, str]) -> None:
        self._kind = kind
        self._texts = texts
        self._marks: dict[str, str] = {}
        self.log: list[Event] = []

    def load(self) -> dict[str, str]:
        return dict(self._marks)

    def committed(self) -> dict[str, str]:
        return dict(self._marks)

    def run(
        self, until: Callable[[], bool], dice: Random | None = None, seconds: float = 120
    ) -> None:
        """Poll until a condition holds, and crash.

        Args:
            dice: decides when what waits is committed, batch by batch; at once by default.
        """
        source = make("source", self._kind, self._texts)
        assert isinstance(source, ReplayableSource)
        channel = source.processor = RecordingProcessor()
        source.ledger = self
        source.start()
        deadline = time.monotonic() + seconds
        try:
            while not until():
                assert time.monotonic() < deadline, f"not in {seconds} s"
                source.poll()
                while channel.batches and (dice is None or dice.random() < 0.6):
                    batch = channel.batches.pop(0)
                    self.log += batch
                    self._marks.update(batch.marks or {})
        finally:
            source.stop()

    def records(self, topic: str) -> list[CapturedRecord]:
        """Return the committed records of a topic."""
        return [
            CapturedRecord(
                json.loads(event.headers["key"]) if "key" in event.headers else None,
                json.loads(event.body) if event.body else None,
                {},
            )
            for event in self.log
            if event.headers["topic"] == topic
        ]


def check_versions(records: list[CapturedRecord], latest: dict[str, int]) -> None:
    """Assert that the versions of every row, which each change raises by one, follow each other."""
    versions: dict[str, list[int]] = {}
    for record in records:
        assert record.value is not None
        versions.setdefault(json.dumps(record.key), []).append(record.value["after"]["version"])
    for key, seen in versions.items():
        assert seen == list(range(seen[0], latest[key] + 1)), (key, seen)
    assert versions.keys() == latest.keys()
