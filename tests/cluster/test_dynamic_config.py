"""Settings of all brokers that change while clients write."""

import asyncio
from pathlib import Path

from confluent_kafka import KafkaError, Producer

from headrace.broker.server import Server
from headrace.cluster.config_command import ConfigAlteration
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.config_code import ConfigOperation
from headrace.testing.local_cluster import local_cluster

WRITES = 5


class Writer:
    """Writes with acks=all and without retries, one request after the other."""

    def __init__(self, server: Server) -> None:
        [listener] = server.listeners
        self._producer = Producer(
            {
                "bootstrap.servers": listener.address,
                "acks": "all",
                "retries": 0,
                "linger.ms": 0,
                "log_level": 0,
            }
        )

    async def write(self) -> set[int | None]:
        """Return the codes of the answers; None stands for success."""
        return await asyncio.to_thread(self._write)

    def _write(self) -> set[int | None]:
        codes: set[int | None] = set()
        for _ in range(WRITES):
            self._producer.produce(
                "orders",
                b"x",
                on_delivery=lambda error, _: codes.add(None if error is None else error.code()),
            )
            assert self._producer.flush(30) == 0
        return codes


async def set_min_insync(server: Server, text: str | None) -> None:
    operation = ConfigOperation.DELETE if text is None else ConfigOperation.SET
    alteration = ConfigAlteration("min.insync.replicas", operation, text)
    await server.broker.controller.administer(
        lambda controller: controller.alter_broker_configs(None, [alteration])
    )


def test_more_replicas_are_asked_for_while_a_client_writes(ensemble: str, tmp_path: Path) -> None:
    async def main() -> None:
        settings = {"min.insync.replicas": "1", "auto.leader.rebalance.enable": "false"}
        async with local_cluster(ensemble, tmp_path, brokers=2, settings=settings) as servers:
            first, second = servers
            topic = TopicToCreate(name="orders", partitions=1, replication_factor=2)
            await first.broker.controller.create_topics([topic])
            await second.stop()
            servers.remove(second)
            writer = Writer(first)
            assert await writer.write() == {None}

            await set_min_insync(first, "2")
            assert await writer.write() == {KafkaError.NOT_ENOUGH_REPLICAS}

            await set_min_insync(first, None)
            assert await writer.write() == {None}

    asyncio.run(main())
