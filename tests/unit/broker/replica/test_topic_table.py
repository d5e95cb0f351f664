"""Which partitions a broker leads, which it does not, and why."""

from headrace.broker.config.settings import BrokerSettings
from headrace.broker.replica.topic_table import HostedTopic, TopicTable
from headrace.cluster.topic import NO_LEADER, PartitionRecord, TopicRecord, random_topic_id
from headrace.model.ids import BrokerId, LeaderEpoch, TopicPartition
from headrace.wire.error_code import ErrorCode
from headrace.wire.leader import LeaderHint

HERE, OTHER = BrokerId(1), BrokerId(2)


def led_by(leader: BrokerId) -> PartitionRecord:
    return PartitionRecord(
        replicas=(HERE, OTHER), isr=(HERE, OTHER), leader=leader, leader_epoch=LeaderEpoch(7)
    )


def table() -> tuple[TopicTable, HostedTopic]:
    """A table with the topic clicks: led here, led elsewhere, without a leader."""
    topics = TopicTable(BrokerSettings({"node.id": str(HERE)}), {})
    record = TopicRecord(
        name="clicks",
        topic_id=random_topic_id(),
        partitions=(led_by(HERE), led_by(OTHER), led_by(NO_LEADER)),
    )
    topic = HostedTopic(record)
    topic.partitions = [None, None, None]
    topics.add(topic)
    return topics, topic


def test_a_partition_that_is_led_elsewhere_comes_with_its_leader() -> None:
    topics, topic = table()

    assert topics.leader_elsewhere(TopicPartition("clicks", 1)) == OTHER
    assert topics.leader_hint("clicks", None, 1) == LeaderHint(OTHER, LeaderEpoch(7))
    assert topics.leader_hint(None, topic.topic_id, 1) == LeaderHint(OTHER, LeaderEpoch(7))
    assert topics.missing_code("clicks", None, 1) == ErrorCode.not_leader_or_follower


def test_a_partition_that_is_led_here_and_not_open_is_offline() -> None:
    topics, _ = table()

    assert topics.leader_elsewhere(TopicPartition("clicks", 0)) is None
    assert topics.leader_hint("clicks", None, 0) is None
    assert topics.missing_code("clicks", None, 0) == ErrorCode.kafka_storage_error


def test_a_partition_without_a_leader_has_no_hint() -> None:
    topics, _ = table()

    assert topics.leader_elsewhere(TopicPartition("clicks", 2)) is None
    assert topics.leader_hint("clicks", None, 2) is None


def test_what_does_not_exist_is_unknown_by_name_or_by_id() -> None:
    topics, _ = table()

    assert topics.exists("clicks", 2)
    assert not topics.exists("clicks", 3)
    assert not topics.exists("orders", 0)
    assert topics.missing_code("clicks", None, 3) == ErrorCode.unknown_topic_or_partition
    assert topics.missing_code("orders", None, 0) == ErrorCode.unknown_topic_or_partition
    assert topics.missing_code(None, random_topic_id(), 0) == ErrorCode.unknown_topic_id


def test_every_change_has_another_version() -> None:
    topics, topic = table()
    versions = [topics.version]
    topics.changed(topic)
    versions.append(topics.version)
    topics.remove(topic)
    versions.append(topics.version)

    assert len(set(versions)) == 3
