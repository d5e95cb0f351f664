"""A link between two clusters of three brokers, each of which loses a leader on the way."""

import uuid

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.client import Admin, ClientSettings, ConnectionPool, GroupAdmin, NewTopic
from headrace.mirror.config.mirror_file import MirrorFile
from headrace.mirror.link.link_status import read_status
from headrace.model.ids import TopicPartition as PartitionName
from headrace.testing.readiness import wait_until
from testkit.fault.cluster_process import ClusterProcess
from testkit.peer.peer import PeerMissing, require_peer
from testkit.process.command_line import run_headrace
from testkit.process.mirror_process import MirrorProcess

RECORDS = 200
GROUP = "billing"
SECONDS = 120


@pytest.fixture
def clusters(tmp_path_factory):
    """East, and west that copies it."""
    east, west = (ClusterProcess(tmp_path_factory.mktemp(name)) for name in ("east", "west"))
    try:
        with east, west:
            yield east, west
    except PeerMissing as missing:
        require_peer(str(missing))


def transactional(address):
    producer = Producer(
        {"bootstrap.servers": address, "transactional.id": "orders", "log_level": 0}
    )
    producer.init_transactions(SECONDS)
    return producer


def write(producer, topic, name, *, committed=True):
    producer.begin_transaction()
    for number in range(RECORDS):
        producer.produce(topic, f"{name} {number}", partition=number % 2)
    if committed:
        producer.commit_transaction(SECONDS)
    else:
        producer.flush(SECONDS)
        producer.abort_transaction(SECONDS)


def records(address, topic):
    """Return the committed records with their partitions and offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(2)])
        found, ended = [], set()
        while len(ended) < 2:
            message = consumer.poll(SECONDS)
            assert message is not None
            if message.error() is not None:
                ended.add(message.partition())
            else:
                found.append((message.partition(), message.offset(), message.value()))
        return sorted(found)
    finally:
        consumer.close()


def has_copied(mirror, expected):
    """Return whether the link is at the end of the source and the copies are these records."""
    lags = [each.lag for each in read_status(MirrorFile.read(mirror.file))]
    return bool(lags) and set(lags) == {0} and expected()


def committed(cluster, topic):
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": cluster.address})) as pool:
        offsets = GroupAdmin(pool).offsets(GROUP)
    return {each.partition: offset for each, offset in offsets.items() if each.topic == topic}


def test_leaders_of_both_sides_die_and_the_copy_stays_exact(clusters, tmp_path):
    east, west = clusters
    topic = f"orders-{uuid.uuid4().hex[:8]}"
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": east.address})) as pool:
        configs = {"min.insync.replicas": "2"}
        assert Admin(pool).create_topics([NewTopic(topic, 2, 3, configs)]) == {topic: None}
    east.wait_in_sync(topic)
    settings = {
        "east->west.enabled": "true",
        "east->west.topics": topic,
        "east->west.headrace.copied.by": "brokers",
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "replication.factor": "3",
        "sync.group.offsets.enabled": "true",
    }
    addresses = {"east": east.address, "west": west.address}
    producer = transactional(east.address)
    write(producer, topic, "first")
    with MirrorProcess(tmp_path / "mirror", addresses, settings) as mirror:

        def is_exact():
            return records(west.address, topic) == records(east.address, topic)

        def wait_for_copy(what):
            wait_until(lambda: has_copied(mirror, is_exact), what=what, timeout_seconds=SECONDS)

        wait_for_copy("the first records")
        west.wait_in_sync(topic)

        # The leader at the source dies, with a transaction that was aborted before it.
        write(producer, topic, "aborted", committed=False)
        at_source = east.leader(topic)
        east.broker(at_source).kill()
        write(producer, topic, "second")
        wait_for_copy("a copy over the death of the source's leader")

        # So does the one at the target, while records are written.
        at_target = west.leader(topic)
        write(producer, topic, "third")
        west.broker(at_target).kill()
        write(producer, topic, "fourth")
        wait_for_copy("a copy over the death of the target's leader")
        east.broker(at_source).start()
        west.broker(at_target).start()
        east.wait_in_sync(topic)
        west.wait_in_sync(topic)

        # A group moves to the other side, and the topic is handed over.
        with ConnectionPool(ClientSettings.of({"bootstrap.servers": east.address})) as pool:
            offsets = {PartitionName(topic, index): 150 for index in range(2)}
            assert set(GroupAdmin(pool).commit(GROUP, offsets).values()) == {None}
        wait_until(
            lambda: committed(west, topic) == {0: 150, 1: 150},
            what="the group at the target",
            timeout_seconds=SECONDS,
        )
        promoted = run_headrace("mirror", "promote", str(mirror.file), topic)
        assert promoted.code == 0, promoted
        copied = records(west.address, topic)
        assert copied == records(east.address, topic)
        assert len(copied) == 4 * RECORDS
        writer = transactional(west.address)
        write(writer, topic, "after")
        assert len(records(west.address, topic)) == 5 * RECORDS
