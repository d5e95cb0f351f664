"""Plans which replicas to move: to balance the brokers, or to empty one.

Pure: takes the metadata of a cluster, returns the replicas that partitions should have. Rules:

1. a partition keeps its number of replicas, each on another broker;
2. as few replicas move as it takes;
3. a replica moves to a rack that its partition is not on yet, if there is one, and there to the
   broker with the fewest replicas;
4. every broker has about as many first replicas, which are the preferred leaders.
"""

from collections import Counter
from collections.abc import Collection, Mapping

from headrace.client.network.metadata import Metadata
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition

ReplicaAssignment = dict[TopicPartition, list[int]]


def current(metadata: Metadata) -> ReplicaAssignment:
    """Return the replicas that each partition has now."""
    return {
        topic.partition(index): list(partition.replicas)
        for _, topic in sorted(metadata.topics.items())
        for index, partition in topic.partitions.items()
    }


def decommission(metadata: Metadata, leaving: int) -> ReplicaAssignment:
    """Return the moves that leave a broker without replicas.

    Raises:
        InvalidArgument: too few brokers would be left for a partition's replicas.
    """
    racks = {each.node_id: each.rack for each in metadata.brokers.values()}
    targets = sorted(set(racks) - {leaving})
    before = current(metadata)
    load = Counter({broker: 0 for broker in targets})
    load.update(each for replicas in before.values() for each in replicas if each != leaving)
    plan: ReplicaAssignment = {}
    for partition, replicas in before.items():
        if leaving not in replicas:
            continue
        others = [each for each in replicas if each != leaving]
        chosen = _place(others, targets, load, racks)
        if chosen is None:
            raise InvalidArgument(
                f"{partition} has {len(replicas)} replicas and there would be {len(targets)} "
                "brokers: add a broker first, or move it to fewer replicas"
            )
        load[chosen] += 1
        plan[partition] = [chosen if each == leaving else each for each in replicas]
    return plan


def rebalance(metadata: Metadata) -> ReplicaAssignment:
    """Return the moves after which all brokers have and lead as many replicas, within one."""
    racks = {each.node_id: each.rack for each in metadata.brokers.values()}
    before = current(metadata)
    after = {partition: list(replicas) for partition, replicas in before.items()}
    _even_out(after, racks)
    _even_leaders(after)
    return {
        partition: replicas
        for partition, replicas in after.items()
        if replicas != before[partition]
    }


def _even_out(plan: ReplicaAssignment, racks: Mapping[int, str | None]) -> None:
    load = Counter({broker: 0 for broker in racks})
    load.update(each for replicas in plan.values() for each in replicas)
    while True:
        fullest = max(sorted(load), key=lambda each: load[each])
        if not _unload(plan, fullest, load, racks):
            return


def _unload(
    plan: ReplicaAssignment, fullest: int, load: Counter[int], racks: Mapping[int, str | None]
) -> bool:
    """Move one replica off the fullest broker, if another has two fewer."""
    for partition, replicas in sorted(plan.items()):
        if fullest not in replicas:
            continue
        others = [each for each in replicas if each != fullest]
        targets = [each for each in sorted(racks) if load[each] + 1 < load[fullest]]
        chosen = _place(others, targets, load, racks)
        if chosen is not None:
            plan[partition] = [chosen if each == fullest else each for each in replicas]
            load[fullest] -= 1
            load[chosen] += 1
            return True
    return False


def _place(
    others: Collection[int],
    targets: Collection[int],
    load: Mapping[int, int],
    racks: Mapping[int, str | None],
) -> int | None:
    used = {racks.get(each) for each in others} - {None}
    free = [each for each in targets if each not in others]
    return min(free, key=lambda each: (racks[each] in used, load[each], each), default=None)


def _even_leaders(plan: ReplicaAssignment) -> None:
    """Reorder replicas, which moves no data, until no broker leads two more than another."""
    leads = Counter(replicas[0] for replicas in plan.values())
    for partition, replicas in sorted(plan.items()):
        first = replicas[0]
        best = min(replicas, key=lambda each: (leads[each], replicas.index(each)))
        if leads[best] + 1 < leads[first]:
            leads[first] -= 1
            leads[best] += 1
            plan[partition] = [best, *(each for each in replicas if each != best)]
