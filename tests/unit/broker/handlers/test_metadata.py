"""Metadata while topics come and go: packed topics beside errors, topics that are being made."""

import asyncio
import threading
from pathlib import Path

import pytest

from headrace.broker.server import Server
from headrace.cluster.topic import TopicRecord
from headrace.cluster.topic_command import TopicToCreate
from headrace.testing.local_broker import local_broker
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from testkit.process.wire_client import WireClient


def ask(server: Server, *names: str):  # type: ignore[no-untyped-def]
    body = {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": False}
    with WireClient(server.listeners[0].address) as client:
        return client.ask(ApiKey.METADATA, 12, body).topics


def test_unknown_topics_stand_beside_packed_ones_and_are_counted(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_broker(tmp_path) as server:
            await server.broker.controller.create_topics([TopicToCreate(name="clicks")])

            for _ in range(2):
                found = await asyncio.to_thread(ask, server, "clicks", "nothing")
                codes = {topic.name: topic.error_code for topic in found}
                assert codes == {
                    "clicks": ErrorCode.none,
                    "nothing": ErrorCode.unknown_topic_or_partition,
                }
            errors = server.broker.metrics.errors
            assert errors["Metadata", ErrorCode.unknown_topic_or_partition] == 2

    asyncio.run(run())


def test_a_topic_whose_logs_are_being_made_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CreateTopics of very many partitions returns before they are served."""

    async def run() -> None:
        async with local_broker(tmp_path) as server:
            storage, go_on = server.broker.storage, threading.Event()
            real = storage.make

            def make(record: TopicRecord) -> None:
                go_on.wait(90)
                real(record)

            monkeypatch.setattr(storage, "make", make)
            many = TopicToCreate(name="clicks", partitions=101)
            async with asyncio.timeout(60):
                await server.broker.controller.create_topics([many])
            asking = asyncio.create_task(asyncio.to_thread(ask, server, "clicks"))
            go_on.set()

            (topic,) = await asking
            assert topic.error_code == ErrorCode.none
            assert len(topic.partitions) == 101

    asyncio.run(run())
