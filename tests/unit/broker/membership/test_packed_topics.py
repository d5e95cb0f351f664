"""Topics packed once for Metadata: the same bytes as unpacked ones, and never old ones."""

import asyncio
from dataclasses import replace

import pytest

from headrace.broker import loop_turn
from headrace.broker.config.settings import BrokerSettings
from headrace.broker.membership.cluster_view import ClusterView
from headrace.broker.membership.packed_topics import PackedTopics
from headrace.broker.replica.topic_table import HostedTopic, TopicTable
from headrace.cluster.broker import BrokerRecord
from headrace.cluster.topic import NO_LEADER, PartitionRecord, TopicRecord, random_topic_id
from headrace.model.ids import BrokerId
from headrace.wire.api import APIS, ApiKey
from headrace.wire.response import pack_response, parse_response

HERE, OTHER = BrokerId(1), BrokerId(2)
VERSIONS = range(APIS[ApiKey.METADATA].lowest, APIS[ApiKey.METADATA].highest + 1)


class Hosts:
    """A broker's topics, and what clients are sent of them."""

    def __init__(self) -> None:
        settings = BrokerSettings({"node.id": str(HERE)})
        self.members = {each: BrokerRecord(broker_id=each, endpoints=()) for each in (HERE, OTHER)}
        self.table = TopicTable(settings, self.members)
        self.packed = PackedTopics(self.table, ClusterView(settings, self.members, {}))

    def add(self, name: str, partitions: int = 2) -> HostedTopic:
        record = TopicRecord(
            name=name,
            topic_id=random_topic_id(),
            partitions=(PartitionRecord.on([OTHER, HERE]),) * partitions,
        )
        topic = HostedTopic(record)
        topic.partitions = [None] * partitions
        self.table.add(topic)
        return topic

    def seen(self):  # type: ignore[no-untyped-def]
        body = {"topics": self.packed.all(12)}
        packed = pack_response(ApiKey.METADATA, 12, 1, body)
        return parse_response(ApiKey.METADATA, 12, packed[4:])[1].topics


@pytest.mark.parametrize("version", VERSIONS)
def test_packed_topics_are_those_that_a_mapping_gives(version: int) -> None:
    hosts = Hosts()
    topics = [hosts.add("clicks"), hosts.add("__consumer_offsets", 3)]
    plain = {"topics": [hosts.packed.describe(topic) for topic in topics]}

    for _ in range(2):
        packed = {"topics": hosts.packed.all(version)}
        assert pack_response(ApiKey.METADATA, version, 1, packed) == pack_response(
            ApiKey.METADATA, version, 1, plain
        )


def test_a_topic_is_described_once_until_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = Hosts()
    clicks, _ = hosts.add("clicks"), hosts.add("views")
    described: list[str] = []
    real = hosts.packed.describe
    monkeypatch.setattr(
        hosts.packed, "describe", lambda topic: (described.append(topic.name), real(topic))[1]
    )
    hosts.seen()
    hosts.seen()
    assert described == ["clicks", "views"]

    (first, *others) = clicks.record.partitions
    leaderless = replace(first, leader=NO_LEADER, isr=())
    clicks.record = replace(clicks.record, partitions=(leaderless, *others))
    hosts.table.changed(clicks)

    assert [each.leader_id for each in hosts.seen()[0].partitions] == [-1, OTHER]
    assert described == ["clicks", "views", "clicks"]


def test_a_broker_that_ends_is_an_offline_replica_at_once() -> None:
    hosts = Hosts()
    hosts.add("clicks", partitions=1)
    assert not hosts.seen()[0].partitions[0].offline_replicas

    del hosts.members[OTHER]
    hosts.table.members_changed()

    (partition,) = hosts.seen()[0].partitions
    assert partition.offline_replicas == (OTHER,)
    assert partition.leader_id == -1


def test_topics_come_and_go() -> None:
    hosts = Hosts()
    clicks = hosts.add("clicks")
    assert [topic.name for topic in hosts.seen()] == ["clicks"]
    hosts.add("views")
    assert [topic.name for topic in hosts.seen()] == ["clicks", "views"]
    hosts.table.remove(clicks)
    assert [topic.name for topic in hosts.seen()] == ["views"]


def test_others_run_while_topics_are_packed_and_changes_meanwhile_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hosts = Hosts()
    topics = [hosts.add(f"t{number}") for number in range(10)]
    monkeypatch.setattr(loop_turn, "_TURN_SECONDS", -1.0)  # a turn is over after each topic

    async def run() -> int:
        packing = asyncio.create_task(hosts.packed.in_turns(12))
        turns = 0
        while not packing.done():
            await asyncio.sleep(0)
            turns += 1
            if turns == 3:
                hosts.table.remove(topics[0])
                hosts.table.remove(topics[9])
                hosts.add("new")
        assert await packing == hosts.packed.all(12)
        return turns

    assert asyncio.run(run()) > 8
    assert {topic.name for topic in hosts.seen()} == {"new", *(f"t{each}" for each in range(1, 9))}
