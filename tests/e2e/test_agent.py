"""Agents and topics: the Kafka sink, source and channel, and exactly-once over failures."""

from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from headrace.client.error import BrokerError, ClientError
from headrace.client.read.reader import Reader
from headrace.client.write.writer import Writer
from headrace.ingest.agent.supervisor import AgentSupervisor
from headrace.ingest.channel import Channel
from headrace.ingest.channels.kafka import KafkaChannel
from headrace.ingest.error import DeliveryFailed
from headrace.ingest.event import Event, EventBatch
from headrace.ingest.settings import Settings
from headrace.ingest.sink import Sink
from headrace.ingest.sinks.kafka import KafkaSink
from headrace.testing.channel_contract import ChannelContract, drain, fill
from headrace.testing.quick_settings import QUICK_SETTINGS
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.sample.ingest_agent import (
    CollectingSink,
    make,
    memory_channel,
    running,
)

_NUMBERS = count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    settings = {**QUICK_SETTINGS, "num.partitions": "1", "auto.create.topics.enable": "true"}
    with BrokerProcess(tmp_path_factory.mktemp("broker"), settings) as broker:
        yield broker


@pytest.fixture
def topic() -> str:
    return f"agent-{next(_NUMBERS)}"


def rows(broker: BrokerProcess, topic: str, **options: bool) -> dict[str, list[object]]:
    """Return the records of a topic, column by column."""
    settings = {"bootstrap.servers": broker.address}
    with Reader.of_topics(settings, topic, **options) as reader:  # type: ignore[arg-type]
        table = reader.read_all()
    found: dict[str, list[object]] = table.to_pydict()
    return found


def values(broker: BrokerProcess, topic: str) -> list[object]:
    return rows(broker, topic, read_committed=True)["value"]


def kafka_sink(broker: BrokerProcess, topic: str, **texts: str) -> KafkaSink:
    sink = make(
        "sink",
        "kafka",
        {
            "kafka.bootstrap.servers": broker.address,
            "kafka.topic": topic,
            **{key.replace("__", "."): value for key, value in texts.items()},
        },
    )
    assert isinstance(sink, KafkaSink)
    return sink


def deliver(sink: Sink, batch: EventBatch) -> None:
    sink.start()
    sink.deliver(batch)
    sink.stop()


def test_bodies_become_values_and_the_key_header_the_key(broker: BrokerProcess, topic: str) -> None:
    batch = EventBatch([b"one", b"\xff", b""], [{"key": "k"}, {}, {"other": "x"}])
    deliver(kafka_sink(broker, topic), batch)
    found = rows(broker, topic)
    assert found["value"] == [b"one", b"\xff", b""]
    assert found["key"] == [b"k", None, None]


def test_a_header_chooses_the_topic(broker: BrokerProcess, topic: str) -> None:
    other = f"{topic}-other"
    batch = EventBatch([b"1", b"2", b"3"], [{}, {"topic": other}, {}])
    deliver(kafka_sink(broker, topic), batch)
    assert (values(broker, topic), values(broker, other)) == ([b"1", b"3"], [b"2"])


def test_headers_and_times_of_records_come_from_headers(broker: BrokerProcess, topic: str) -> None:
    sink = kafka_sink(broker, topic, header__origin="host", timestampHeader="timestamp")
    deliver(sink, EventBatch([b"1", b"2"], [{"host": "web1", "timestamp": "1700000000000"}, {}]))
    found = rows(broker, topic)
    assert found["headers"][0] == [{"key": "origin", "value": b"web1"}]
    assert found["timestamp"][0].timestamp() == 1_700_000_000  # type: ignore[attr-defined]


def test_the_flume_format_comes_back_through_the_source(broker: BrokerProcess, topic: str) -> None:
    events = [Event({"a": "ä"}, b"x"), Event({}, b"y")]
    deliver(kafka_sink(broker, topic, useFlumeEventFormat="true"), EventBatch.of(events))
    text = f"""
    a1.sources = r1
    a1.channels = c1
    a1.sinks = k1
    a1.sources.r1.type = org.apache.flume.source.kafka.KafkaSource
    a1.sources.r1.kafka.bootstrap.servers = {broker.address}
    a1.sources.r1.kafka.topics = {topic}
    a1.sources.r1.kafka.consumer.group.id = {topic}
    a1.sources.r1.kafka.consumer.auto.offset.reset = earliest
    a1.sources.r1.useFlumeEventFormat = true
    a1.sources.r1.batchSize = 100
    a1.sources.r1.channels = c1
    a1.channels.c1.type = memory
    a1.sinks.k1.type = testkit.sample.ingest_agent:CollectingSink
    a1.sinks.k1.channel = c1
    """
    with running(text) as agent:
        sink = agent.assembly.sinks["k1"]
        assert isinstance(sink, CollectingSink)
        wait_until(lambda: len(sink.events) == 2, what="both events")
    assert sink.bodies == [b"x", b"y"]
    assert sink.events[0].headers["a"] == "ä"
    assert sink.events[1].headers == {"topic": topic, "partition": "0", "offset": "1"}


class PatientChannel(KafkaChannel):
    """Takes nothing only where the topic has nothing: a broker may answer after `pollTimeout`."""

    def _consume(self, limit: int, seconds: float) -> list[Any]:
        messages = super()._consume(limit, seconds)
        while not messages and self._is_behind():
            messages = super()._consume(limit, seconds)
        return messages

    def _is_behind(self) -> bool:
        return any(
            each.offset < self._consumer.get_watermark_offsets(each, timeout=90)[1]
            for each in self._consumer.position(self._consumer.assignment())
        )


class TestKafkaChannel(ChannelContract):
    @pytest.fixture
    def channel(self, broker: BrokerProcess, topic: str) -> Iterator[Channel]:
        texts = {
            "kafka.bootstrap.servers": broker.address,
            "kafka.topic": topic,
            "kafka.consumer.group.id": topic,
            "transactionCapacity": "10",
            "pollTimeout": "500",
            "kafka.consumer.fetch.wait.max.ms": "20",
            "kafka.consumer.topic.metadata.refresh.interval.ms": "100",
        }
        channel = PatientChannel("it", Settings.from_texts(KafkaChannel.SETTINGS, texts))
        channel.start()
        try:
            fill(channel, [b"first"])  # makes the topic; taking it joins the group
            wait_until(
                lambda: drain(channel) == [b"first"], what="the first event", timeout_seconds=60
            )
            channel.counters = type(channel.counters)(channel.COUNTERS)
            yield channel
        finally:
            channel.stop()


# -- exactly once


def test_a_transactional_sink_writes_a_batch_and_its_marks_together(
    broker: BrokerProcess, topic: str
) -> None:
    channel = memory_channel()
    sink = kafka_sink(broker, topic, kafka__transactional__id=topic)
    sink.channel = channel
    sink.start()
    with channel.begin() as transaction:
        transaction.put(EventBatch([b"1"], [{}], {"file": "10"}))
        transaction.put(EventBatch([b"2"], [{}], {"file": "20"}))
    sink.process()
    sink.stop()
    assert values(broker, topic) == [b"1", b"2"]
    again = kafka_sink(broker, topic, kafka__transactional__id=topic)
    assert again.ledger is not None
    assert again.ledger.load() == {"file": "20"}
    again.stop()


def test_a_commit_without_an_answer_is_not_written_twice(
    broker: BrokerProcess, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = memory_channel()
    sink = kafka_sink(broker, topic, kafka__transactional__id=topic)
    sink.channel = channel
    sink.start()
    with channel.begin() as transaction:
        transaction.put(EventBatch([b"1"], [{}], {"file": "10"}))
    commit = Writer.commit

    def commit_and_fail(writer: Writer) -> None:
        commit(writer)
        monkeypatch.setattr(Writer, "commit", commit)
        raise ClientError("the answer was lost")

    monkeypatch.setattr(Writer, "commit", commit_and_fail)
    with pytest.raises(DeliveryFailed, match="the answer was lost"):
        sink.process()
    with channel.begin() as transaction:
        transaction.put(EventBatch([b"2"], [{}], {"file": "20"}))
    sink.process()
    sink.stop()
    assert values(broker, topic) == [b"1", b"2"]


def test_a_fenced_sink_cannot_write_any_more(broker: BrokerProcess, topic: str) -> None:
    channel = memory_channel()
    zombie = kafka_sink(broker, topic, kafka__transactional__id=topic)
    zombie.channel = channel
    zombie.start()
    heir = kafka_sink(broker, topic, kafka__transactional__id=topic)
    heir.start()
    with channel.begin() as transaction:
        transaction.put(EventBatch([b"old"], [{}], {"file": "10"}))
    with pytest.raises(DeliveryFailed):
        zombie.process()
    assert heir.ledger is not None
    assert dict(heir.ledger.committed()) == {}
    heir.stop()
    zombie.stop()


CHANNELS = {
    "memory": "a1.channels.c1.type = memory\n",
    "kafka": (
        "a1.channels.c1.type = kafka\n"
        "a1.channels.c1.kafka.bootstrap.servers = {address}\n"
        "a1.channels.c1.kafka.topic = {topic}\n"
        "a1.channels.c1.kafka.transactional.id = {topic}\n"
        "a1.channels.c1.parseAsFlumeEvent = false\n"
    ),
}
SINK = (
    "a1.sinks = k1\n"
    "a1.sinks.k1.type = kafka\n"
    "a1.sinks.k1.kafka.bootstrap.servers = {address}\n"
    "a1.sinks.k1.kafka.topic = {topic}\n"
    "a1.sinks.k1.kafka.transactional.id = {topic}\n"
    "a1.sinks.k1.channel = c1\n"
)
SOURCES = {
    "TAILDIR": (
        "a1.sources.r1.filegroups = f\n"
        "a1.sources.r1.filegroups.f = {folder}/.*\n"
        "a1.sources.r1.positionFile = /nonexistent/never-written\n"
    ),
    "spooldir": "a1.sources.r1.spoolDir = {folder}\na1.sources.r1.pollDelay = 10\n",
}


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("source", SOURCES)
def test_files_reach_a_topic_once_over_restarts(
    broker: BrokerProcess, topic: str, tmp_path: Path, source: str, channel: str
) -> None:
    text = (
        "a1.sources = r1\na1.channels = c1\n"
        f"a1.sources.r1.type = {source}\na1.sources.r1.channels = c1\n"
        "a1.sources.r1.exactlyOnce = true\na1.sources.r1.batchSize = 7\n"
        + SOURCES[source].format(folder=tmp_path)
        + CHANNELS[channel].format(address=broker.address, topic=topic)
        + (SINK.format(address=broker.address, topic=topic) if channel == "memory" else "")
    )
    lines: list[object] = []
    for turn in range(3):
        new = [b"%d-%d" % (turn, number) for number in range(50)]
        (tmp_path / f"file-{turn}").write_bytes(b"".join(line + b"\n" for line in new))
        lines += new
        with running(text):
            wait_until(partial(_has, broker, topic, len(lines)), what="all lines")
    assert values(broker, topic) == lines


def test_files_reach_a_topic_once_over_changes_of_the_configuration(
    broker: BrokerProcess, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each change drops what waits in the channel and what the sink is writing."""
    monkeypatch.setattr("headrace.ingest.agent.supervisor._DRAIN_SECONDS", 0.0)
    (tmp_path / "in").mkdir()
    text = (
        "a1.sources = r1\na1.channels = c1\n"
        "a1.sources.r1.type = TAILDIR\na1.sources.r1.channels = c1\n"
        "a1.sources.r1.exactlyOnce = true\na1.channels.c1.capacity = 5000\n"
        + SOURCES["TAILDIR"].format(folder=tmp_path / "in")
        + CHANNELS["memory"]
        + SINK.format(address=broker.address, topic=topic)
    )
    file = tmp_path / "flow.conf"
    file.write_text(text)
    supervisor = AgentSupervisor(file, "a1")
    supervisor.start()
    try:
        for turn in range(4):
            with (tmp_path / "in" / "file").open("a") as log:
                log.writelines(f"{turn * 5000 + number}\n" for number in range(5000))
            assert supervisor.agent is not None
            sink = supervisor.agent.assembly.sinks["k1"]
            wait_until(partial(_has_delivered, sink), what="some events")
            file.write_text(f"{text}a1.sources.r1.batchSize = {50 + turn}\n")
            assert supervisor.apply_changes()
        wait_until(partial(_has, broker, topic, 20_000), what="all lines")
    finally:
        assert supervisor.agent is not None
        supervisor.agent.stop()
    assert values(broker, topic) == [b"%d" % number for number in range(20_000)]


def _has_delivered(sink: Sink) -> bool:
    return sink.counters["EventDrainSuccessCount"] > 500


def test_a_file_whose_events_are_all_dropped_is_completed_too(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("drop\n" * 20)
    text = (
        "a1.sources = r1\na1.channels = c1\n"
        "a1.sources.r1.type = spooldir\na1.sources.r1.channels = c1\n"
        "a1.sources.r1.exactlyOnce = true\na1.sources.r1.batchSize = 7\n"
        "a1.sources.r1.interceptors = i1\na1.sources.r1.interceptors.i1.type = regex_filter\n"
        "a1.sources.r1.interceptors.i1.regex = keep\n"
        + SOURCES["spooldir"].format(folder=tmp_path)
        + CHANNELS["memory"]
        + SINK.format(address=broker.address, topic=topic)
    )
    with running(text):
        wait_until((tmp_path / "file.COMPLETED").exists, what="the end of the file")


def _has(broker: BrokerProcess, topic: str, count: int) -> bool:
    try:
        return len(values(broker, topic)) >= count
    except BrokerError:
        return False  # the topic does not exist yet


# -- several batches on their way


def test_a_channel_is_emptied_several_batches_at_a_time_and_in_order(
    broker: BrokerProcess, topic: str
) -> None:
    bodies = [b"%d" % number for number in range(1000)]
    channel = memory_channel(capacity="1000", transactionCapacity="1000")
    fill(channel, bodies)
    sink = kafka_sink(broker, topic, flumeBatchSize="50")
    sink.channel = channel
    sink.start()
    calls = 0
    while channel.size:
        sink.process()
        calls += 1
    sink.stop()
    assert values(broker, topic) == bodies
    assert calls < len(bodies) // 50
    assert sink.counters["EventDrainSuccessCount"] == len(bodies)


def test_of_a_durable_channel_one_batch_is_on_its_way_which_a_crash_may_repeat(
    broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    channel = make("channel", "file", {"dataDirs": str(tmp_path / "data")})
    assert isinstance(channel, Channel)
    channel.start()
    fill(channel, [b"%d" % number for number in range(60)])
    sink = kafka_sink(broker, topic, flumeBatchSize="10")
    sink.channel = channel
    sink.start()
    sizes = []
    while channel.size:
        sink.process()
        sizes.append(channel.size)
    sink.stop()
    channel.stop()
    assert sizes == [50, 40, 30, 20, 10, 0]


def test_a_batch_that_is_refused_for_good_repeats_the_others_a_few_times_at_most(
    broker: BrokerProcess, topic: str
) -> None:
    bodies = [b"%d" % number for number in range(12)]
    too_large = b"x" * (2 << 20)
    channel = memory_channel()
    fill(channel, [*bodies, too_large])
    sink = kafka_sink(broker, topic, flumeBatchSize="1")
    sink.channel = channel
    sink.start()
    failures = 0
    for _ in range(40):
        try:
            sink.process()
        except DeliveryFailed:
            failures += 1
    sink.stop()
    found = values(broker, topic)
    assert failures >= 20  # the last one is refused again and again
    assert channel.size == 1
    assert set(found) == set(bodies)
    assert list(dict.fromkeys(found)) == bodies
    assert all(found.count(body) <= 4 for body in bodies)


def test_events_that_cannot_become_records_repeat_none_before_them(
    broker: BrokerProcess, topic: str
) -> None:
    channel = memory_channel()
    fill(channel, [b"%d" % number for number in range(14)])
    with channel.begin() as transaction:
        transaction.put(EventBatch([b"bad"], [{"part": "none"}]))
    sink = kafka_sink(broker, topic, flumeBatchSize="1", partitionIdHeader="part")
    sink.channel = channel
    sink.start()
    failures = 0
    for _ in range(20):
        try:
            sink.process()
        except DeliveryFailed:
            failures += 1
    sink.stop()
    assert values(broker, topic) == [b"%d" % number for number in range(14)]
    assert channel.size == 1
    assert failures > 10
