"""Who leads a partition, given who is alive: pure functions from a partition to the next one.

Theory of operation
-------------------
A partition's record says who leads it and who is in sync. When brokers come and go, `elect`
makes the next record: brokers that are gone leave the in-sync replicas, and a partition whose
leader is gone gets the first of its replicas that is in sync and alive. It looks at nothing but the
record and the brokers that are alive, so any broker may call it, any number of times: the
controller after a change, a broker that leaves for itself, a broker that comes back after a crash
for its last run.

Rules
-----
Rule 1: a leader is in sync, unless no replica in sync is alive and the topic allows unclean
        election.
Rule 2: a new leader, and no leader, means a higher leader epoch, and so does a replica that leaves.
        The in-sync replicas alone do not. One that leaves deletes its log. If it comes back soon,
        the leader may learn of both at once, and must not count what the old log had.
Rule 3: the in-sync replicas are never empty. If all of them are gone they stay as they were: each
        of them has everything that is committed, and the first to come back leads.
Rule 4: every change adds 1 to the partition epoch.
Rule 5: a partition that is right already is returned as it is.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from headrace.cluster.topic import NO_LEADER, PartitionRecord
from headrace.model.ids import BrokerId, LeaderEpoch


def elect(
    partition: PartitionRecord, alive: Collection[BrokerId], *, unclean: bool
) -> PartitionRecord:
    """Return the partition as it should be while just these brokers are alive."""
    isr = tuple([broker for broker in partition.isr if broker in alive]) or partition.isr
    if partition.leader in alive and partition.leader in isr:
        # Nearly every partition is right already, and a cluster may have 200,000 of them.
        return partition if isr == partition.isr else changed(partition, isr=isr)
    leader = next((each for each in partition.replicas if each in isr and each in alive), None)
    if leader is None and unclean:
        leader = next((each for each in partition.replicas if each in alive), None)
        isr = partition.isr if leader is None else (leader,)
    return changed(partition, isr=isr, leader=NO_LEADER if leader is None else leader)


def prefer(partition: PartitionRecord, alive: Collection[BrokerId]) -> PartitionRecord:
    """Return the partition led by its first replica, if that is in sync and alive."""
    first = partition.replicas[0]
    if first in partition.isr and first in alive:
        return changed(partition, leader=first)
    return partition


def changed(
    partition: PartitionRecord,
    *,
    replicas: Sequence[BrokerId] | None = None,
    isr: Sequence[BrokerId] | None = None,
    leader: BrokerId | None = None,
    adding: Sequence[BrokerId] | None = None,
    removing: Sequence[BrokerId] | None = None,
) -> PartitionRecord:
    """Return the partition with these values, and the epochs that go with them (rules 2 and 4)."""
    new = replace(
        partition,
        replicas=partition.replicas if replicas is None else tuple(replicas),
        isr=partition.isr if isr is None else tuple(isr),
        leader=partition.leader if leader is None else leader,
        adding=partition.adding if adding is None else tuple(adding),
        removing=partition.removing if removing is None else tuple(removing),
    )
    if new == partition:
        return partition
    left = set(partition.replicas) - set(new.replicas)
    epoch = partition.leader_epoch + (new.leader != partition.leader or bool(left))
    return replace(
        new, leader_epoch=LeaderEpoch(epoch), partition_epoch=partition.partition_epoch + 1
    )
