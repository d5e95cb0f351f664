"""DeleteTopics of a broker whose topic table is behind the cluster's state."""

import asyncio
import threading
from pathlib import Path
from typing import Any

from headrace.cluster.controller import Controller
from headrace.cluster.topic_command import TopicDefaults, TopicToCreate
from headrace.testing.local_broker import local_broker
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from testkit.process.wire_client import WireClient

CLICKS = TopicToCreate(name="clicks", partitions=1)


def test_a_topic_that_was_created_again_meanwhile_is_not_deleted_by_its_old_id(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            await broker.controller.create_topics([CLICKS])
            old = broker.topics.by_name("clicks")
            assert old is not None
            running, go_on = threading.Event(), threading.Event()

            def create_again(controller: Controller) -> None:
                running.set()
                go_on.wait(60)
                controller.delete_topics(["clicks"])
                controller.create_topics([CLICKS], defaults=TopicDefaults())

            def delete() -> Any:
                with WireClient(f"127.0.0.1:{server.listeners[0].port}") as client:
                    topics = [{"name": None, "topic_id": old.topic_id}]
                    return client.ask(
                        ApiKey.DELETE_TOPICS, 6, {"topics": topics, "timeout": 10_000}
                    )

            command = asyncio.create_task(broker.controller.administer(create_again))
            await asyncio.to_thread(running.wait, 60)
            deletion = asyncio.create_task(asyncio.to_thread(delete))
            try:
                async with asyncio.timeout(60):
                    # Its id has been looked up: the deletion waits for the command under way.
                    while len(broker.controller._commands) < 2:
                        await asyncio.sleep(0.005)
            finally:
                go_on.set()
            await command
            [outcome] = (await deletion).responses

            assert outcome.error_code == ErrorCode.unknown_topic_id
            new = await broker.controller.read_topics(["clicks"])
            assert new["clicks"].topic_id != old.topic_id

    asyncio.run(run())
