"""A change of the cluster's state is applied to the broker, whether or not its client waits."""

import asyncio
import threading
from pathlib import Path

import pytest

from headrace.cluster.config_command import ConfigAlteration
from headrace.cluster.controller import Controller
from headrace.cluster.rejection import Rejection
from headrace.cluster.topic import TopicRecord
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.config_code import ConfigOperation
from headrace.testing.local_broker import local_broker


def test_a_client_that_goes_away_leaves_no_change_half_done(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            reached, go_on = threading.Event(), threading.Event()

            def alter(controller: Controller) -> Rejection | None:
                reached.set()
                go_on.wait(90)
                change = ConfigAlteration("num.partitions", ConfigOperation.SET, "7")
                return controller.alter_broker_configs(None, [change])

            waiting = asyncio.create_task(broker.controller.administer(alter))
            await asyncio.to_thread(reached.wait, 10)
            waiting.cancel()
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await broker.controller.administer(lambda controller: None)

            assert broker.settings.num_partitions == 7

    asyncio.run(run())


def test_connection_limits_change_while_the_broker_runs(tmp_path: Path) -> None:
    async def run() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            change = ConfigAlteration("max.connections.per.ip", ConfigOperation.SET, "3")

            await broker.controller.administer(
                lambda controller: controller.alter_broker_configs(broker.node_id, [change])
            )

            assert server.acceptor.limits.max_connections_per_host == 3

    asyncio.run(run())


def test_many_who_ask_for_topics_wait_for_one_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a start every transaction that was decided may ask."""
    readings: list[set[str]] = []
    read = Controller.read_topics

    def counted(controller: Controller, names: set[str]) -> dict[str, TopicRecord]:
        readings.append(set(names))
        return read(controller, names)

    monkeypatch.setattr(Controller, "read_topics", counted)

    async def run() -> None:
        async with local_broker(tmp_path) as server:
            controller = server.broker.controller
            await controller.create_topics([TopicToCreate(name="there")])
            names = ["there", *(f"gone-{each}" for each in range(20))]

            answers = await asyncio.gather(*(controller.read_topics([name]) for name in names))

            assert [list(each) for each in answers] == [["there"], *[[]] * 20]
            assert readings == [set(names)]
            assert list(await controller.read_topics(["there"])) == ["there"]

    asyncio.run(run())
