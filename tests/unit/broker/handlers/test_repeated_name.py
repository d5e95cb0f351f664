"""A name that stands many times in a request is answered once: answers are longer than names."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from headrace.broker.server import Server
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.config_code import ConfigResourceType
from headrace.testing.local_broker import local_broker
from headrace.wire.api import ApiKey
from testkit.process.wire_client import WireClient


def on_broker(folder: Path, test: Callable[[WireClient], None]) -> None:
    """Run a test against a broker with the topic `clicks` of two partitions."""

    def connected(server: Server) -> None:
        with WireClient(server.listeners[0].address) as client:
            test(client)

    async def main() -> None:
        async with local_broker(folder) as server:
            await server.broker.controller.create_topics(
                [TopicToCreate(name="clicks", partitions=2)]
            )
            await asyncio.to_thread(connected, server)

    asyncio.run(main())


def test_topics_groups_producers_and_transactions_are_answered_once(tmp_path: Path) -> None:
    def test(client: WireClient) -> None:
        topics = [{"name": "clicks"}, {"name": "no"}] * 3
        wanted = {"topics": topics, "allow_auto_topic_creation": False}
        metadata = client.ask(ApiKey.METADATA, 9, wanted)
        assert sorted(each.name for each in metadata.topics) == ["clicks", "no"]

        classic = client.ask(ApiKey.DESCRIBE_GROUPS, 5, {"groups": ["a", "b", "a"]})
        assert [each.group_id for each in classic.groups] == ["a", "b"]
        consumer = client.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, {"group_ids": ["a", "b", "a"]})
        assert [each.group_id for each in consumer.groups] == ["a", "b"]

        producers = client.ask(
            ApiKey.DESCRIBE_PRODUCERS,
            0,
            {"topics": [{"name": "clicks", "partition_indexes": [1, 0, 1]}] * 3},
        )
        [topic] = producers.topics
        assert [each.partition_index for each in topic.partitions] == [1, 0]

        transactions = {"transactional_ids": ["t", "t"]}
        found = client.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, transactions)
        assert [each.transactional_id for each in found.transaction_states] == ["t"]

    on_broker(tmp_path, test)


def test_a_topic_is_answered_once_whatever_ids_stand_beside_its_name(tmp_path: Path) -> None:
    def test(client: WireClient) -> None:
        named = [{"name": "clicks", "topic_id": UUID(int=each)} for each in range(5)]
        wanted = {"topics": named, "allow_auto_topic_creation": False}
        for version in (10, 12):
            [topic] = client.ask(ApiKey.METADATA, version, wanted).topics
            assert (topic.name, len(topic.partitions)) == ("clicks", 2)

        by_id = [{"name": None, "topic_id": each} for each in (topic.topic_id, UUID(int=9))] * 2
        found = client.ask(ApiKey.METADATA, 12, {"topics": by_id}).topics
        assert sorted(each.topic_id for each in found) == sorted((topic.topic_id, UUID(int=9)))

    on_broker(tmp_path, test)


def test_configurations_are_answered_once_with_all_wanted_keys(tmp_path: Path) -> None:
    def resource(name: str, *keys: str) -> dict[str, object]:
        return {
            "resource_type": ConfigResourceType.TOPIC,
            "resource_name": name,
            "configuration_keys": keys or None,
        }

    def test(client: WireClient) -> None:
        def describe(*resources: dict[str, object]) -> dict[str, list[str]]:
            answer = client.ask(ApiKey.DESCRIBE_CONFIGS, 4, {"resources": resources})
            names = [each.resource_name for each in answer.results]
            assert len(names) == len(set(names))
            return {
                each.resource_name: sorted(config.name for config in each.configs)
                for each in answer.results
            }

        keys = ("retention.ms", "cleanup.policy")
        some = describe(*(resource("clicks", key) for key in keys), resource("no"))
        assert some == {"clicks": sorted(keys), "no": []}
        everything = describe(resource("clicks"))["clicks"]
        assert len(everything) > 20
        assert describe(resource("clicks"), resource("clicks", "retention.ms")) == {
            "clicks": everything
        }
        assert describe(resource("clicks", "retention.ms"), resource("clicks")) == {
            "clicks": everything
        }

    on_broker(tmp_path, test)


def test_offsets_are_answered_once(tmp_path: Path) -> None:
    def test(client: WireClient) -> None:
        client.ask(ApiKey.FIND_COORDINATOR, 4, {"key_type": 0, "coordinator_keys": ["g"]})
        partitions = [{"partition_index": 0, "committed_offset": 7, "committed_metadata": "m"}]
        commit = {"group_id": "g", "topics": [{"name": "clicks", "partitions": partitions}]}
        client.ask(ApiKey.OFFSET_COMMIT, 8, commit)

        whole = [{"group_id": "g", "topics": None}] * 3
        [group] = client.ask(ApiKey.OFFSET_FETCH, 8, {"groups": whole}).groups
        assert group.topics[0].partitions[0].committed_offset == 7

        twice = [{"name": "clicks", "partition_indexes": [0, 0, 1]}] * 2
        asked = [{"group_id": "g", "topics": twice}] * 2
        groups = client.ask(ApiKey.OFFSET_FETCH, 8, {"groups": asked}).groups
        assert [
            (each.partition_index, each.committed_offset)
            for group in groups
            for topic in group.topics
            for each in topic.partitions
        ] == [(0, 7), (1, -1)]

    on_broker(tmp_path, test)
