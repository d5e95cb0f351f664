"""The seam simulator with brokers that have two log directories, and operators.

Logs move between the directories of a broker (AlterReplicaLogDirs) while their partitions are led,
followed, truncated, compacted and deleted. Quotas of clients change while brokers start and are cut
off. Groups commit offsets of topics that come and go. In every second history a group has members,
too, which come and go by the classic and by the consumer protocol, so that it passes between both.
It is a simulator of its own: with one more choice every seed of the other one would be another
history.

What must hold besides:

9. a move changes nothing that can be seen, and none stays under way when the faults have ended: a
   broker has one log of a partition, in one directory, and no half copy;
10. in the end every broker has the quotas of clients that were set last;
11. an offset that was acknowledged to a group is there in the end, or a later one, and none of a
    topic that was deleted;
12. two members of a group that both have a confirmed assignment of one generation (epoch), or are
    both sure of their membership, do not own the same partition (`group_ownership`);
13. when the faults have ended and no member comes or goes any more, every partition of the topic
    that there is has one owner within bounded time; the coordinator has the same view, and the
    group has the protocol of its members.

The exchange of a move is one event here: crashes in the middle of it are for
`moving_log_history`. Clients are not slowed down: they do not come through a broker's handlers.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest.mock import patch

from headrace.cluster.entity import decode_entity
from headrace.cluster.quota import ClientQuota
from headrace.log.departed_logs import FUTURE_SUFFIX
from testkit.simulation.group_consumer import GroupConsumer
from testkit.simulation.group_ownership import GroupOwnership
from testkit.simulation.log_dir_administrator import LogDirAdministrator
from testkit.simulation.offset_committer import OffsetCommitter
from testkit.simulation.seam_broker import SeamBroker
from testkit.simulation.seam_client import SeamClient
from testkit.simulation.seam_simulator import SeamSimulator
from testkit.simulation.virtual_loop import VirtualLoop

_CONSUMERS = (2, 3)
_ROLLOUT_MS = (500, 1500)
_DIRECTORIES = (Path("/data"), Path("/other"))


class OperatorSimulator(SeamSimulator):
    """One history. `run()` runs it and raises `Violation` if a rule is broken.

    Attributes:
        group: the group with members, if this history has one.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.group: GroupOwnership | None = None
        if seed % 2 == 0:
            self.group = GroupOwnership(self)
            # With one partition there is little to give up for another member.
            self.partition_count = 2

    def _make_broker(self, broker_id: int) -> SeamBroker:
        return SeamBroker(self, broker_id, _DIRECTORIES)

    def _make_administrator(self) -> LogDirAdministrator:
        return LogDirAdministrator(self)

    def _more_clients(self, loop: VirtualLoop) -> Sequence[SeamClient]:
        self._committers = [OffsetCommitter(self, number, loop) for number in (1, 2)]
        if self.group is None:
            return self._committers
        cooperative = self.random.random() < 0.5
        rollout_ms = self.random.randint(*_ROLLOUT_MS)
        consumers = [
            GroupConsumer(
                self, number, loop, self.group, cooperative=cooperative, rollout_ms=rollout_ms
            )
            for number in range(1, 1 + self.random.choice(_CONSUMERS))
        ]
        return [*self._committers, *consumers]

    def run(self) -> None:
        # Member ids come from the seed, too.
        with patch("headrace.groups.registry.uuid4", self._uuid):
            super().run()

    def _unsettled(self) -> Iterator[str]:
        before = False
        for problem in super()._unsettled():
            before = True
            yield problem
        if before:
            return
        for committer in self._committers:
            problem = committer.problem()
            if problem is not None:
                yield problem
        problem = None if self.group is None else self.group.problem()
        if problem is not None:
            yield problem
        for broker in self.brokers.values():
            yield from _unfinished_moves(broker)
        yield from self._other_quotas()

    def _other_quotas(self) -> Iterator[str]:
        """Yield the brokers whose limits are not those of the cluster (rule 10)."""
        nodes = self.ensemble.nodes
        found = (decode_entity(nodes[path]) for path in nodes if path.startswith("/quotas/"))
        limits = {each.entity: dict(each.values) for each in found if isinstance(each, ClientQuota)}
        for broker in self.brokers.values():
            if broker.quotas.limits != limits:
                yield (
                    f"broker {broker.broker_id} throttles clients by {broker.quotas.limits}, and "
                    f"{limits} is set"
                )


def _unfinished_moves(broker: SeamBroker) -> Iterator[str]:
    """Yield the moves that have not come to their end (rule 9)."""
    number = broker.broker_id
    if broker.moves.under_way:
        yield f"a log still moves at broker {number}"
    for directory in broker.storage.directories:
        for name in broker.disk.list(directory.path):
            if name.endswith(FUTURE_SUFFIX):
                yield f"broker {number} has half a copy, {directory.path / name}"
        for partition in directory.partitions:
            others = [each for each in broker.storage.directories if each is not directory]
            topic_id = directory.topic_id(partition)
            for other in others:
                if partition in other and other.topic_id(partition) == topic_id:
                    yield f"broker {number} has two logs of {partition}"
