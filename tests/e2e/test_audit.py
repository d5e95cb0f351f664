"""Counts of real clients, and what the command makes of them."""

import json
from collections import Counter

import pyarrow as pa
import pytest

from headrace.audit.audited_writer import AuditedWriter
from headrace.audit.confluent import AuditedConsumer, AuditedProducer
from headrace.audit.feed import read_audit
from headrace.audit.reconciliation import Reconciliation
from headrace.audit.reporter import Reporter
from headrace.audit.tally import Tally
from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.model.clock import SystemClock
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.process.command_line import run_headrace
from testkit.sample.ingest_agent import running

BUCKET_MS = 10_000


@pytest.fixture
def settings(broker: BrokerProcess) -> ClientSettings:
    return ClientSettings.of({"bootstrap.servers": broker.address})


@pytest.fixture
def audit_topic(topic: str) -> str:
    return f"{topic}-audit"


def make(settings: ClientSettings, topic: str) -> None:
    with ConnectionPool(settings) as pool:
        assert Admin(pool).create_topics([NewTopic(topic, 2)]) == {topic: None}


def report(settings: ClientSettings, tally: Tally, audit_topic: str) -> None:
    reporter = Reporter(tally, settings, topic=audit_topic)
    reporter.report()
    assert reporter.problem is None


def audit(broker: BrokerProcess, audit_topic: str) -> tuple[int, list[dict[str, object]]]:
    done = run_headrace(
        "audit", "--audit-topic", audit_topic, "--json", "--since", "1h", "-b", broker.address
    )
    return done.code, json.loads(done.out)


def test_stock_clients_count_what_was_delivered_and_read(
    broker: BrokerProcess, settings: ClientSettings, topic: str, group: str, audit_topic: str
) -> None:
    make(settings, topic)
    sent, seen = (Tally(tier, bucket_ms=BUCKET_MS) for tier in ("producer", "consumer"))
    delivered: list[int] = []
    producer = AuditedProducer({"bootstrap.servers": broker.address}, sent)
    for number in range(50):
        producer.produce(
            topic,
            str(number),
            on_delivery=lambda _, message: delivered.append(message.offset()),
        )
    assert producer.flush(60) == 0
    config = {
        "bootstrap.servers": broker.address,
        "group.id": group,
        "auto.offset.reset": "earliest",
    }
    consumer = AuditedConsumer(config, seen)
    consumer.subscribe([topic])
    read = 0
    while read < 50:
        read += len(consumer.consume(50, 60))
    consumer.close()
    report(settings, sent, audit_topic)
    report(settings, seen, audit_topic)
    code, rows = audit(broker, audit_topic)
    assert len(delivered) == 50
    assert (code, sum(row["sent"] for row in rows)) == (0, 50)
    assert {tier["percent"] for row in rows for tier in row["tiers"]} == {100.0}


def test_a_loss_is_found_and_ends_with_exit_code_1(
    broker: BrokerProcess, settings: ClientSettings, topic: str, audit_topic: str
) -> None:
    two_minutes_ago = SystemClock().wall_ms() - 120_000
    sent, seen = (Tally(tier, bucket_ms=BUCKET_MS) for tier in ("producer", "lake"))
    sent.count(topic, two_minutes_ago, 10)
    seen.count(topic, two_minutes_ago, 9)
    report(settings, sent, audit_topic)
    report(settings, seen, audit_topic)
    code, (row,) = audit(broker, audit_topic)
    assert (code, row["lost"], row["settled"]) == (1, 1, True)
    table = run_headrace("audit", "--audit-topic", audit_topic, "-b", broker.address)
    assert any(line.endswith("LOST") for line in table.lines)


def test_our_writer_counts_what_was_flushed(
    broker: BrokerProcess, settings: ClientSettings, topic: str, audit_topic: str
) -> None:
    make(settings, topic)
    tally = Tally("producer", bucket_ms=BUCKET_MS)
    with AuditedWriter(tally, settings, topic) as writer:
        writer.write(pa.table({"value": [b"a", b"b", b"c"]}))
        assert tally.take() == []
        writer.flush()
        assert sum(each.count for each in tally.take()) == 3
        writer.write(pa.table({"value": [b"d"]}))
    assert sum(each.count for each in tally.take()) == 1


def test_an_aborted_transaction_is_not_counted(
    broker: BrokerProcess, settings: ClientSettings, topic: str
) -> None:
    make(settings, topic)
    tally = Tally("producer", bucket_ms=BUCKET_MS)
    with AuditedWriter(tally, settings, topic, transactional_id=f"{topic}-writer") as writer:
        writer.begin()
        writer.write(pa.table({"value": [b"a", b"b"]}))
        writer.abort()
        with writer.transaction():
            writer.write(pa.table({"value": [b"c"]}))
    assert sum(each.count for each in tally.take()) == 1


def test_a_topic_can_be_counted_as_a_tier(
    broker: BrokerProcess, settings: ClientSettings, topic: str, audit_topic: str
) -> None:
    make(settings, topic)
    tally = Tally("producer", bucket_ms=BUCKET_MS)
    with AuditedWriter(tally, settings, topic) as writer:
        writer.write(pa.table({"value": [b"x"] * 1000}))
    report(settings, tally, audit_topic)
    arguments = ("--audit-topic", audit_topic, "--to-end", "--bucket", "10s")
    done = run_headrace("audit", "count", topic, *arguments, "-b", broker.address)
    assert (done.code, done.lines) == (0, ["1,000 records counted as tier broker."])
    code, rows = audit(broker, audit_topic)
    assert (code, sum(row["sent"] for row in rows)) == (0, 1000)
    assert sum(tier["count"] for row in rows for tier in row["tiers"]) == 1000


@pytest.mark.parametrize("setting", ["on", "auto"])
def test_an_agent_counts_what_it_writes_and_what_it_reads(
    setting: str, broker: BrokerProcess, settings: ClientSettings, topic: str, audit_topic: str
) -> None:
    copied = f"{topic}-copy"
    make(settings, topic)
    make(settings, copied)
    if setting == "auto":
        # Another producer counts there already, in buckets of that length.
        other = Tally("producer", bucket_ms=BUCKET_MS)
        other.count("another", 0)
        report(settings, other, audit_topic)
    agent = f"""
        a1.audit = {setting}
        a1.audit.topic = {audit_topic}
        {f"a1.audit.bucketMs = {BUCKET_MS}" if setting == "on" else ""}
        a1.sources = r1 r2
        a1.channels = c1 c2
        a1.sinks = k1 k2
        a1.sources.r1.type = seq
        a1.sources.r1.totalEvents = 100
        a1.sources.r1.channels = c1
        a1.channels.c1.type = memory
        a1.sinks.k1.type = org.apache.flume.sink.kafka.KafkaSink
        a1.sinks.k1.channel = c1
        a1.sinks.k1.kafka.bootstrap.servers = {broker.address}
        a1.sinks.k1.kafka.topic = {topic}
        a1.sources.r2.type = org.apache.flume.source.kafka.KafkaSource
        a1.sources.r2.channels = c2
        a1.sources.r2.batchSize = 100
        a1.sources.r2.kafka.bootstrap.servers = {broker.address}
        a1.sources.r2.kafka.topics = {topic}
        a1.sources.r2.kafka.consumer.group.id = {topic}
        a1.sources.r2.kafka.consumer.auto.offset.reset = earliest
        a1.channels.c2.type = memory
        a1.sinks.k2.type = org.apache.flume.sink.kafka.KafkaSink
        a1.sinks.k2.channel = c2
        a1.sinks.k2.kafka.bootstrap.servers = {broker.address}
        a1.sinks.k2.kafka.topic = {copied}
        a1.sinks.k2.allowTopicOverride = false
    """
    with running(agent) as started:
        sink = started.assembly.sinks["k2"]
        wait_until(
            lambda: sink.counters.snapshot().get("EventDrainSuccessCount", 0) >= 100,
            what="100 events in the second topic",
            timeout_seconds=60,
        )
    found = Reconciliation()
    found.add(read_audit(settings, 0, audit_topic))
    rows = found.rows(now_ms=2**60, grace_ms=0, topics=[topic, copied])
    sent = Counter({name: 0 for name in (topic, copied)})
    for row in rows:
        sent[row.topic] += row.sent
    assert sent == {topic: 100, copied: 100}
    assert {row.length_ms for row in rows} == {BUCKET_MS}
    assert {tier.tier for row in rows for tier in row.tiers if row.topic == topic} <= {"a1"}
    assert sum(row.lost for row in rows) == 0
    counts = [each for each in read_audit(settings, 0, audit_topic) if each.tier == "a1"]
    assert sum(each.count for each in counts) == 100


def test_a_missing_audit_topic_is_an_error(broker: BrokerProcess, topic: str) -> None:
    done = run_headrace("audit", "--audit-topic", f"{topic}-none", "-b", broker.address)
    assert (done.code, "nothing is counted yet" in done.err) == (1, True)
