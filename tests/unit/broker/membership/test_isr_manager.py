"""How changes of the in-sync replicas are reported."""

import asyncio
from functools import partial
from pathlib import Path
from typing import cast

from structlog.testing import capture_logs

from headrace.broker.membership.isr_manager import IsrManager, Registration
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.ids import BrokerId
from headrace.testing.local_broker import local_broker

FOLLOWER = BrokerId(9)
PARTITIONS = 20


class Joined:
    joined = True

    def set_stranded(self, stranded: bool) -> None:
        """Nothing to note."""


def test_a_round_of_changes_is_one_line_with_a_few_examples(tmp_path: Path) -> None:
    async def main() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            await broker.controller.create_topics(
                [TopicToCreate(name="clicks", partitions=PARTITIONS, replication_factor=1)]
            )
            manager = IsrManager(broker, cast(Registration, Joined()))
            with capture_logs() as lines:
                for partition in broker.topics.partitions():
                    here = partition.state.broker_id
                    partition.state.set_replicas({here, FOLLOWER}, 0)
                    partition.state.set_isr({here, FOLLOWER})
                    manager.propose(partition, frozenset({here}))
                assert manager._flushing is not None
                await manager._flushing
            [line] = [each for each in lines if each["event"] == "isr_proposed"]

            assert (line["partitions"], line["shrunk"], line["expanded"]) == (PARTITIONS, 20, 0)
            assert line["examples"].count("->") == 3
            assert "clicks-0 [1, 9] -> [1]" in line["examples"]

    asyncio.run(main())


def test_a_follower_that_lost_its_log_while_its_proposal_waited_is_not_proposed(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async with local_broker(tmp_path) as server:
            broker = server.broker
            await broker.controller.create_topics(
                [TopicToCreate(name="clicks", partitions=1, replication_factor=1)]
            )
            manager = IsrManager(broker, cast(Registration, Joined()))
            [partition] = broker.topics.partitions()
            state = partition.state
            state.set_replicas({state.broker_id, FOLLOWER}, 0)
            state.appended(100)
            fetched = partial(state.follower_fetched, FOLLOWER, leader_epoch=state.leader_epoch)
            fetched(100, broker_epoch=1)
            state.propose(state.expanded(FOLLOWER))
            assert manager._proposal(partition) is not None

            fetched(0, broker_epoch=2)

            assert manager._proposal(partition) is None

    asyncio.run(main())
