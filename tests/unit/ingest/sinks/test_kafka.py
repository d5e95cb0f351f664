"""The kafka sink and topics that senders of events name, with a broker that creates none."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import extents
from headrace.client.read.read_range import ReadRange
from headrace.client.read.reader import Reader
from headrace.client.settings import ClientSettings
from headrace.client.write.writer import Writer
from headrace.cluster.acl import Acl
from headrace.ingest.channels.memory import MemoryChannel
from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import EventBatch
from headrace.ingest.settings import Settings
from headrace.ingest.sink import Status
from headrace.ingest.sinks.kafka import KafkaSink
from headrace.model.ids import TopicPartition
from headrace.testing.local_broker import local_broker
from testkit.sample.ingest_agent import make

OPEN = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


def with_broker(
    folder: Path, creates: bool, test: Callable[[str], None], acls: Sequence[Acl] = ()
) -> None:
    """Run a test in a thread beside a broker; it is given the broker's address."""
    settings = {"num.partitions": "1", "auto.create.topics.enable": str(creates).lower()}

    async def run() -> None:
        async with local_broker(folder, {**settings, **OPEN}) as server:
            await server.broker.controller.administer(lambda each: each.create_acls(acls))
            await asyncio.to_thread(test, f"127.0.0.1:{server.listeners[0].port}")

    asyncio.run(run())


def started_sink(address: str, *, trusted: bool = False, **texts: str) -> KafkaSink:
    settings = {"kafka.bootstrap.servers": address, "kafka.topic": "own", "audit": "off"}
    named = {key.replace("__", "."): value for key, value in texts.items()}
    sink = make("sink", "kafka", {**settings, **named})
    assert isinstance(sink, KafkaSink)
    sink.trusts_headers = trusted
    sink.start()
    return sink


def topics(address: str) -> set[str]:
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": address})) as pool:
        return set(pool.metadata().topics)


def values(address: str, topic: str) -> list[bytes]:
    """Return the committed values of a topic with one partition."""
    settings = ClientSettings.of({"bootstrap.servers": address})
    partition = TopicPartition(topic, 0)
    with ConnectionPool(settings) as pool:
        extent = extents(pool, [partition])[partition]
    assert not isinstance(extent, ClientError)
    ranges = {partition: ReadRange(extent.start, extent.end)}
    with Reader(settings, ranges, read_committed=True) as reader:
        return [value for chunk in reader for value in chunk.columns.column("value").to_pylist()]


def named(topic: str) -> EventBatch:
    return EventBatch([b"x"], [{"topic": topic, "key": "k"}])


def process(sink: KafkaSink, batch: EventBatch) -> None:
    """Let a sink take a batch from a channel."""
    channel = sink.channel = MemoryChannel("c", Settings.from_texts(MemoryChannel.SETTINGS, {}))
    channel.start()
    with channel.begin() as transaction:
        transaction.put(batch)
    assert sink.process() is Status.READY


def test_a_header_creates_no_topic_where_brokers_create_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.ingest.kafka.missing_topic._APPEARS_SECONDS", 0.0)

    def check(address: str) -> None:
        sink = started_sink(address)
        sink.deliver(EventBatch.plain([b"1"]))
        with pytest.raises(DeliveryFailed, match="which does not exist, and the brokers create"):
            sink.deliver(named("made-by-a-sender"))
        with capture_logs() as logs:
            for _ in range(2):
                sink.deliver(named("no/such topic"))
        sink.stop()
        assert topics(address) == {"own"}
        assert sink.counters["TopicHeaderRefusedCount"] == 2
        assert [each["event"] for each in logs] == ["topic_header_refused"]

    with_broker(tmp_path, False, check)


def test_topics_that_an_exactly_once_source_names_are_created(tmp_path: Path) -> None:
    def check(address: str) -> None:
        sink = started_sink(address, trusted=True)
        sink.deliver(named("server.public.orders"))
        sink.stop()
        assert "server.public.orders" in topics(address)

    with_broker(tmp_path, False, check)


def test_a_broker_that_creates_topics_does_so_for_a_header(tmp_path: Path) -> None:
    def check(address: str) -> None:
        sink = started_sink(address)
        sink.deliver(named("made-by-a-sender"))
        sink.stop()
        assert topics(address) == {"made-by-a-sender"}

    with_broker(tmp_path, True, check)


def test_a_header_that_collides_with_a_topic_stops_nothing(tmp_path: Path) -> None:
    def check(address: str) -> None:
        sink = started_sink(address)
        sink.deliver(named("web_logs"))
        for _ in range(2):
            sink.deliver(named("web.logs"))
        sink.stop()
        assert topics(address) == {"web_logs", "own"}
        assert sink.counters["TopicHeaderRefusedCount"] == 2

    with_broker(tmp_path, True, check)


@pytest.mark.parametrize("transactional", [False, True])
def test_a_topic_that_the_cluster_denies_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transactional: bool
) -> None:
    asked: list[set[str]] = []

    def ask(settings: object, names: set[str]) -> set[str]:
        asked.append(names)
        return names

    monkeypatch.setattr("headrace.ingest.kafka.topic_writer.ask_for_topics", ask)

    def check(address: str) -> None:
        sink = started_sink(address, **{"kafka.transactional.id": "id"} if transactional else {})
        for topic in ("denied", "own", "denied"):
            process(sink, named(topic))
        sink.stop()
        assert "denied" not in topics(address)
        assert sink.counters["TopicHeaderRefusedCount"] == 2

    with_broker(tmp_path, False, check)
    assert asked == [{"denied"}]


@pytest.mark.parametrize("transactional", [False, True])
def test_a_batch_may_name_more_denied_topics_than_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transactional: bool
) -> None:
    asked: list[set[str]] = []

    def ask(settings: object, names: set[str]) -> set[str]:
        asked.append(names)
        return names

    monkeypatch.setattr("headrace.ingest.kafka.topic_writer.ask_for_topics", ask)
    monkeypatch.setattr("headrace.ingest.kafka.refused_topic._MOST", 3)
    old, new = {"a", "b", "c"}, {"d", "e"}

    def check(address: str) -> None:
        sink = started_sink(address, **{"kafka.transactional.id": "id"} if transactional else {})
        for names in (old, old | new):
            headers = [{"topic": name, "key": "k"} for name in sorted(names)]
            process(sink, EventBatch([b"x"] * len(names), headers))
        sink.stop()
        assert "own" in topics(address)
        assert topics(address).isdisjoint(old | new)

    with_broker(tmp_path, False, check)
    assert asked == [old, new, old]


@pytest.mark.parametrize(("transactional", "second"), [(False, True), (True, True), (True, False)])
def test_topics_that_may_be_read_but_not_written_stop_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transactional: bool, second: bool
) -> None:
    calls = "headrace.client.write.transaction_calls"
    monkeypatch.setattr(f"{calls}._has_second_version", lambda _: second)
    names = ["read-only-1", "read-only-2"]
    acls = [
        Acl("topic", name, "literal", "User:ANONYMOUS", "*", right, "allow")
        for name in names
        for right in ("read", "create")
    ]

    def check(address: str) -> None:
        sink = started_sink(address, **{"kafka.transactional.id": "id"} if transactional else {})
        process(sink, named("writable"))
        headers = [{"topic": name, "key": "k"} for name in [*names, "writable"]]
        for _ in names:  # a write tells of one topic
            with pytest.raises(DeliveryFailed, match="cannot write to topics: "):
                process(sink, EventBatch([b"1", b"2", b"3"], headers))
        process(sink, EventBatch([b"1", b"2", b"3"], headers))
        sink.stop()
        assert {*names, "writable", "own"} <= topics(address)
        written = values(address, "own")
        assert (written if transactional else sorted(set(written))) == [b"1", b"2"]

    with_broker(tmp_path, True, check, acls)


def test_a_right_that_is_revoked_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: set[str] = set()
    monkeypatch.setattr(
        "headrace.ingest.kafka.topic_writer.ask_for_topics", lambda _, names: names & refused
    )

    def check(address: str) -> None:
        sink = started_sink(address, trusted=True)
        sink.deliver(named("revoked"))
        sink.stop()
        sink = started_sink(address)
        sink.deliver(named("revoked"))
        refused.add("revoked")
        with monkeypatch.context() as broken:
            broken.setattr(Writer, "write", fail)
            with pytest.raises(DeliveryFailed, match="cannot write to topic revoked"):
                sink.deliver(named("revoked"))
        sink.deliver(named("revoked"))
        sink.stop()
        assert values(address, "own") == [b"x"]

    def fail(*_: object) -> None:
        raise ClientError("cannot write to topic revoked: access to the topic is denied")

    with_broker(tmp_path, False, check)
