"""Committed offsets: kept over restarts, changed by administrators, forgotten when they should."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from headrace.testing.readiness import wait_until
from headrace.wire.api import ApiKey
from testkit.process.broker_process import BrokerProcess
from testkit.process.member import create_topic
from testkit.process.wire_client import WireClient

CODE_UNKNOWN_MEMBER = 25
CODE_NON_EMPTY_GROUP = 68
CODE_SUBSCRIBED = 86


def simple_consumer(address: str, group: str) -> Consumer:
    """One that never subscribes: it has offsets and no membership."""
    return Consumer({"bootstrap.servers": address, "group.id": group, "enable.auto.commit": False})


def commit(address: str, group: str, topic: str, offsets: Sequence[int]) -> None:
    consumer = simple_consumer(address, group)
    consumer.commit(
        offsets=[
            TopicPartition(topic, index, offset, metadata=f"at {offset}")
            for index, offset in enumerate(offsets)
        ],
        asynchronous=False,
    )
    consumer.close()


def committed(address: str, group: str, topic: str, partitions: int) -> list[int]:
    consumer = simple_consumer(address, group)
    wanted = [TopicPartition(topic, index) for index in range(partitions)]
    found = [each.offset for each in consumer.committed(wanted, timeout=60)]
    consumer.close()
    return found


def group_ids(address: str) -> list[str]:
    admin = AdminClient({"bootstrap.servers": address})
    return [each.group_id for each in admin.list_consumer_groups().result(60).valid]


NOTHING = -1001


def test_a_commit_brings_back_offset_and_note(
    broker: BrokerProcess, topic: str, group: str
) -> None:
    create_topic(broker.address, topic, 2)
    commit(broker.address, group, topic, [5])

    consumer = simple_consumer(broker.address, group)
    wanted = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    first, second = consumer.committed(wanted, timeout=60)
    consumer.close()

    assert (first.offset, first.metadata) == (5, "at 5")
    assert second.offset == NOTHING


def test_offsets_survive_a_clean_restart(own_broker: BrokerProcess, topic: str, group: str) -> None:
    own_broker.start()
    create_topic(own_broker.address, topic, 3)
    commit(own_broker.address, group, topic, [1, 2, 3])
    commit(own_broker.address, group, topic, [4, 5])

    assert own_broker.stop() == 0
    own_broker.start()

    assert committed(own_broker.address, group, topic, 3) == [4, 5, 3]


def test_offsets_survive_a_kill(own_broker: BrokerProcess, topic: str, group: str) -> None:
    own_broker.settings |= {"log.flush.interval.messages": "1"}
    own_broker.start()
    create_topic(own_broker.address, topic, 3)
    for number in range(20):
        commit(own_broker.address, f"{group}-{number % 5}", topic, [number, number + 1])

    own_broker.kill()
    own_broker.start()

    found = [committed(own_broker.address, f"{group}-{number}", topic, 2) for number in range(5)]
    assert found == [[number, number + 1] for number in range(15, 20)]


def test_offsets_survive_compaction_and_a_restart(
    own_broker: BrokerProcess, topic: str, group: str
) -> None:
    own_broker.settings |= {
        "offsets.topic.num.partitions": "1",
        "offsets.topic.segment.bytes": "1024",
        "log.cleaner.min.cleanable.ratio": "0.01",
    }
    own_broker.start()
    create_topic(own_broker.address, topic, 1)
    consumer = simple_consumer(own_broker.address, group)
    for offset in range(200):
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()
    folder = own_broker.data / "__consumer_offsets-0"
    # 200 commits are more than 20 kB, and compacted they are one record and empty heads.
    wait_until(lambda: _log_bytes(folder) < 10_000, what="the compaction")

    own_broker.stop()
    own_broker.start()

    assert committed(own_broker.address, group, topic, 1) == [199]


def _log_bytes(folder: Path) -> int:
    """Of all segments; compaction may take one away while we look."""
    size = 0
    for segment in folder.glob("*.log"):
        with contextlib.suppress(FileNotFoundError):
            size += segment.stat().st_size
    return size


def test_an_administrator_moves_and_deletes_offsets(
    broker: BrokerProcess, topic: str, group: str
) -> None:
    create_topic(broker.address, topic, 2)
    commit(broker.address, group, topic, [5, 6])
    admin = AdminClient({"bootstrap.servers": broker.address})

    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1)])
    admin.alter_consumer_group_offsets([moved])[group].result(60)
    assert committed(broker.address, group, topic, 2) == [1, 6]

    admin.delete_consumer_groups([group])[group].result(60)
    assert committed(broker.address, group, topic, 2) == [NOTHING, NOTHING]
    assert group not in group_ids(broker.address)


def test_a_group_with_members_is_neither_moved_nor_deleted(
    broker: BrokerProcess, topic: str, group: str
) -> None:
    create_topic(broker.address, topic, 1)
    commit(broker.address, group, topic, [5])
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group})
    consumer.subscribe([topic])
    wait_until(lambda: _has_assignment(consumer), what="the assignment")
    admin = AdminClient({"bootstrap.servers": broker.address})

    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1)])
    (answer,) = admin.alter_consumer_group_offsets([moved])[group].result(60).topic_partitions
    with pytest.raises(KafkaException) as refused:
        admin.delete_consumer_groups([group])[group].result(60)

    assert answer.error.code() == CODE_UNKNOWN_MEMBER
    assert refused.value.args[0].code() == CODE_NON_EMPTY_GROUP
    assert committed(broker.address, group, topic, 1) == [5]
    consumer.close()


def _has_assignment(consumer: Consumer) -> bool:
    consumer.poll(0.01)
    return bool(consumer.assignment())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_of_a_topic_that_is_being_read_are_not_deleted(
    broker: BrokerProcess, topic: str, group: str, protocol: str
) -> None:
    create_topic(broker.address, topic, 1)
    create_topic(broker.address, f"{topic}-old", 1)
    commit(broker.address, group, topic, [5])
    commit(broker.address, group, f"{topic}-old", [6])
    consumer = Consumer(
        {"bootstrap.servers": broker.address, "group.id": group, "group.protocol": protocol}
    )
    consumer.subscribe([topic])
    wait_until(lambda: _has_assignment(consumer), what="the assignment")

    topics = [
        {"name": name, "partitions": [{"partition_index": 0}]} for name in (topic, f"{topic}-old")
    ]
    with WireClient(broker.address) as client:
        answer = client.ask(ApiKey.OFFSET_DELETE, 0, {"group_id": group, "topics": topics})

    assert [each.partitions[0].error_code for each in answer.topics] == [CODE_SUBSCRIBED, 0]
    assert committed(broker.address, group, topic, 1) == [5]
    assert committed(broker.address, group, f"{topic}-old", 1) == [NOTHING]
    consumer.close()


def test_offsets_and_groups_expire(own_broker: BrokerProcess, topic: str, group: str) -> None:
    own_broker.settings |= {"offsets.retention.check.interval.ms": "50"}
    own_broker.start()
    create_topic(own_broker.address, topic, 1)
    commit(own_broker.address, f"{group}-kept", topic, [5])
    partition = {"partition_index": 0, "committed_offset": 7}
    body: dict[str, Any] = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "retention_time": 1,
        "topics": [{"name": topic, "partitions": [partition]}],
    }
    with WireClient(own_broker.address) as client:
        client.ask(ApiKey.OFFSET_COMMIT, 2, body)

    wait_until(lambda: group not in group_ids(own_broker.address), what="the expiry")

    assert group_ids(own_broker.address) == [f"{group}-kept"]


def test_deleting_a_topic_forgets_its_offsets(
    broker: BrokerProcess, topic: str, group: str
) -> None:
    create_topic(broker.address, topic, 1)
    create_topic(broker.address, f"{topic}-kept", 1)
    commit(broker.address, group, topic, [5])
    commit(broker.address, group, f"{topic}-kept", [6])
    admin = AdminClient({"bootstrap.servers": broker.address})

    admin.delete_topics([topic])[topic].result(60)
    create_topic(broker.address, topic, 1)

    assert committed(broker.address, group, topic, 1) == [NOTHING]
    assert committed(broker.address, group, f"{topic}-kept", 1) == [6]
