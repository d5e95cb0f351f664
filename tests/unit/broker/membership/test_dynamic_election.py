"""unclean.leader.election.enable of brokers counts from the moment it changes."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.broker.config.settings import BrokerSettings
from headrace.broker.server import Server
from headrace.cluster.config_command import ConfigAlteration
from headrace.cluster.entity import encode_entity, entity_path
from headrace.cluster.topic import NO_LEADER, PartitionRecord, TopicRecord
from headrace.model.config_code import ConfigOperation
from headrace.model.ids import BrokerId, TopicId, random_uuid
from headrace.testing.local_cluster import FOR_CLUSTER_TESTS
from testkit.simulation.memory_store import Ensemble, MemoryStore

KEY = "unclean.leader.election.enable"
HERE, GONE = BrokerId(1), BrokerId(2)


def orphaned_topic() -> TopicRecord:
    """A topic whose only replica in sync is gone."""
    partition = PartitionRecord(replicas=(HERE, GONE), leader=NO_LEADER, isr=(GONE,))
    return TopicRecord(name="clicks", topic_id=TopicId(random_uuid()), partitions=(partition,))


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("broker_id", [None, HERE])
def test_a_replica_that_is_behind_leads_once_brokers_allow_it(
    tmp_path: Path, broker_id: BrokerId | None
) -> None:
    ensemble = Ensemble()
    topic = orphaned_topic()
    MemoryStore(ensemble).put(entity_path(topic), encode_entity(topic), None)
    texts = {
        **FOR_CLUSTER_TESTS,
        "node.id": str(HERE),
        "log.dirs": str(tmp_path),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "zookeeper.connect": "in-memory:1",
    }

    async def main() -> None:
        server = await Server.start(BrokerSettings(texts), open_store=lambda: MemoryStore(ensemble))
        try:
            broker = server.broker
            assert broker.topics.find("clicks", None, 0) is None

            await broker.controller.administer(
                lambda controller: controller.alter_broker_configs(
                    broker_id, [ConfigAlteration(KEY, ConfigOperation.SET, "true")]
                )
            )

            await eventually(lambda: broker.topics.find("clicks", None, 0) is not None)
        finally:
            await server.stop()

    asyncio.run(main())
