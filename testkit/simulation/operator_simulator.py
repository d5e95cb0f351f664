"""The seam simulator with brokers that have two log directories, and operators.

Logs move between the directories of a broker (AlterReplicaLogDirs) while their partitions are led,
followed, truncated, compacted and deleted. Quotas of clients change while brokers start and are cut
off. Groups commit offsets of topics that come and go. It is a simulator of its own: with one more
choice every seed of the other one would be another history.

What must hold besides:

9. a move changes nothing that can be seen, and none stays under way when the faults have ended: a
   broker has one log of a partition, in one directory, and no half copy;
10. in the end every broker has the quotas of clients that were set last;
11. an offset that was acknowledged to a group is there in the end, or a later one, and none of a
    topic that was deleted.

The exchange of a move is one event here: crashes in the middle of it are for
`moving_log_history`. Clients are not slowed down: they do not come through a broker's handlers.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from headrace.cluster.entity import decode_entity
from headrace.cluster.quota import ClientQuota
from headrace.log.departed_logs import FUTURE_SUFFIX
from testkit.simulation.log_dir_administrator import LogDirAdministrator
from testkit.simulation.offset_committer import OffsetCommitter
from testkit.simulation.seam_broker import SeamBroker
from testkit.simulation.seam_client import SeamClient
from testkit.simulation.seam_simulator import SeamSimulator
from testkit.simulation.virtual_loop import VirtualLoop

_DIRECTORIES = (Path("/data"), Path("/other"))


class OperatorSimulator(SeamSimulator):
    """One history. `run()` runs it and raises `Violation` if a rule is broken."""

    def _make_broker(self, broker_id: int) -> SeamBroker:
        return SeamBroker(self, broker_id, _DIRECTORIES)

    def _make_administrator(self) -> LogDirAdministrator:
        return LogDirAdministrator(self)

    def _more_clients(self, loop: VirtualLoop) -> Sequence[SeamClient]:
        self._committers = [OffsetCommitter(self, number, loop) for number in (1, 2)]
        return self._committers

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
