"""A mirror between Headrace and Apache Kafka, both ways at once, and MirrorMaker 2's own client."""

import subprocess
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.testing.readiness import wait_until
from testkit.peer.apache_kafka import ApacheKafka
from testkit.peer.java import SHORT_RUN
from testkit.peer.kafka_tool import KafkaTools
from testkit.peer.mirror_jars import MIRROR_CLIENT_JARS
from testkit.peer.peer import PeerMissing, require_peer
from testkit.peer.stock_consumer import ConsumedRecord, read_topic
from testkit.peer.transactional import transact, transactional_producer
from testkit.process.broker_process import BrokerProcess
from testkit.process.member import create_topic
from testkit.process.mirror_process import MirrorProcess

pytestmark = pytest.mark.interop

PROGRAM = Path(__file__).with_name("program") / "MirrorOffsets.java"
COUNT = 500
# Not years ago: retention would remove the records.
START_MS = int(time.time() * 1000) - 3_600_000


def fill(address: str, topic: str, codec: str) -> None:
    """Write records in a codec, then a transaction that is aborted and one that is committed."""
    producer = Producer(
        {"bootstrap.servers": address, "compression.type": codec, "batch.num.messages": 50}
    )
    for number in range(COUNT):
        producer.produce(
            topic,
            b"value %d" % number,
            key=b"key %d" % (number % 7),
            partition=0,
            headers=[("n", b"%d" % number)],
            timestamp=START_MS + number,
        )
    assert producer.flush(60) == 0
    writer = transactional_producer(address, f"{topic}-writer")
    transact(writer, topic, b"never", commit=False)
    transact(writer, topic, b"committed")


def content(records: list[ConsumedRecord]) -> list[tuple[object, ...]]:
    return [(each.timestamp_ms, each.key, each.value, each.headers) for each in records]


def topics(address: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": address}).list_topics(timeout=30).topics)


def wait_for_copy(source: str, topic: str, target: str, remote: str) -> list[ConsumedRecord]:
    wanted = content(read_topic(source, topic)[0])
    assert len(wanted) == COUNT + 1

    def arrived() -> bool:
        return remote in topics(target) and len(read_topic(target, remote)[0]) >= len(wanted)

    wait_until(arrived, what=remote)
    found = read_topic(target, remote)[0]
    assert content(found) == wanted
    return found


def test_both_ways_at_once_and_translated_offsets(
    tmp_path: Path,
    own_broker: BrokerProcess,
    apache_kafka: ApacheKafka,
    kafka_tools: KafkaTools,
    topic: str,
    group: str,
) -> None:
    try:
        jars = MIRROR_CLIENT_JARS.find()
    except PeerMissing as missing:
        require_peer(str(missing))
    own_broker.start()
    ours, theirs = own_broker.address, apache_kafka.address
    for address, codec in ((ours, "zstd"), (theirs, "lz4")):
        create_topic(address, topic, 1)
        fill(address, topic, codec)
    commit(ours, group, topic, 321)
    settings = {
        "ours->theirs.enabled": "true",
        "theirs->ours.enabled": "true",
        "topics": topic,
        "groups": group,
        "sync.group.offsets.enabled": "true",
    }
    clusters = {"ours": ours, "theirs": theirs}
    with MirrorProcess(tmp_path, clusters, settings) as running:
        there = wait_for_copy(ours, topic, theirs, f"ours.{topic}")
        wait_for_copy(theirs, topic, ours, f"theirs.{topic}")
        wait_until(
            lambda: "ours.heartbeats" in topics(theirs) and committed(theirs, group, topic) >= 0,
            what="heartbeats and the group's offset",
        )
        command = kafka_tools.java.command(
            str(PROGRAM),
            (theirs, "ours", group),
            classpath=f"{kafka_tools.jars.classpath}:{jars.classpath}",
            options=[*SHORT_RUN, f"-Dlog4j2.configurationFile={kafka_tools.logging}"],
        )
        said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        assert "mirror_partition_stopped" not in running.log

    assert "upstream: [ours]" in said
    assert f"ours.{topic}" in said
    assert "hops: 1" in said
    (line,) = [each for each in said.splitlines() if each.startswith(f"offset: ours.{topic}-0 ")]
    translated = int(line.split()[-1])
    # The record at 321 is not skipped, and the group does not begin at the very start.
    assert there[0].offset < translated <= there[321].offset
    assert committed(theirs, group, topic) == translated
    for address in (ours, theirs):
        copies = {each for each in topics(address) if topic in each and each != topic}
        assert len(copies) == 1, "a topic went round"


def commit(address: str, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def committed(address: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": address, "group.id": group})
    try:
        (found,) = consumer.committed([TopicPartition(f"ours.{topic}", 0)], timeout=30)
        return found.offset
    finally:
        consumer.close()
