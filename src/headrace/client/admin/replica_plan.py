"""Plans which replicas to move: to balance the brokers, or to empty one.

Pure: takes the metadata of a cluster, returns the replicas that partitions should have. Rules:

1. a partition keeps its number of replicas, each on another broker;
2. as few replicas move as it takes;
3. a partition ends on as many racks as there are, up to its number of replicas: a replica moves to
   the rack that has the fewest of its partition's other replicas, and there to the broker with the
   fewest replicas of all. To even out the load no partition gives up a rack (a broker without a
   rack counts as a rack of its own);
4. every broker has about as many first replicas, which are the preferred leaders.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

from headrace.client.network.metadata import Metadata
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition

ReplicaAssignment = dict[TopicPartition, list[int]]
Rack = str | int
"""A rack's name, or the id of a broker without a rack."""


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
    racks = _racks(metadata)
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
    """Return the moves after which every partition is on as many racks as it can be, and brokers
    have and lead as many replicas as that allows: without racks all the same, within one."""
    racks = _racks(metadata)
    before = current(metadata)
    after = {partition: list(replicas) for partition, replicas in before.items()}
    load = Counter({broker: 0 for broker in racks})
    load.update(each for replicas in after.values() for each in replicas)
    _spread(after, load, racks)
    _even_out(after, load, racks)
    _even_leaders(after)
    return {
        partition: replicas
        for partition, replicas in after.items()
        if replicas != before[partition]
    }


def _racks(metadata: Metadata) -> dict[int, Rack]:
    return {
        each.node_id: each.node_id if each.rack is None else each.rack
        for each in metadata.brokers.values()
    }


def _spread(plan: ReplicaAssignment, load: Counter[int], racks: Mapping[int, Rack]) -> None:
    """Move replicas that share a rack, while another rack has fewer of their partition."""
    for partition in sorted(plan):
        while _spread_one(plan, partition, load, racks):
            pass


def _spread_one(
    plan: ReplicaAssignment,
    partition: TopicPartition,
    load: Counter[int],
    racks: Mapping[int, Rack],
) -> bool:
    replicas = plan[partition]
    for leaving in sorted(replicas, key=lambda each: -load[each]):
        others = [each for each in replicas if each != leaving]
        shared = _used(others, racks)[racks.get(leaving, leaving)]
        chosen = _place(others, racks, load, racks, most=shared - 1)
        if chosen is not None:
            _move(plan, partition, leaving, chosen, load)
            return True
    return False


def _even_out(plan: ReplicaAssignment, load: Counter[int], racks: Mapping[int, Rack]) -> None:
    held: defaultdict[int, set[TopicPartition]] = defaultdict(set)
    for partition, replicas in plan.items():
        for each in replicas:
            held[each].add(partition)
    while True:
        for fullest in sorted(load, key=lambda each: (-load[each], each)):
            moved = _unload(plan, fullest, held[fullest], load, racks)
            if moved is not None:
                partition, chosen = moved
                held[fullest].remove(partition)
                held[chosen].add(partition)
                break
        else:
            return


def _unload(
    plan: ReplicaAssignment,
    fullest: int,
    held: Collection[TopicPartition],
    load: Counter[int],
    racks: Mapping[int, Rack],
) -> tuple[TopicPartition, int] | None:
    """Move one replica off a broker, if another has two fewer, and return it with that broker."""
    targets = [each for each in sorted(racks) if load[each] + 1 < load[fullest]]
    if not targets:
        return None
    for partition in sorted(held):
        others = [each for each in plan[partition] if each != fullest]
        shared = _used(others, racks)[racks.get(fullest, fullest)]
        chosen = _place(others, targets, load, racks, most=shared)
        if chosen is not None:
            _move(plan, partition, fullest, chosen, load)
            return partition, chosen
    return None


def _move(
    plan: ReplicaAssignment, partition: TopicPartition, leaving: int, to: int, load: Counter[int]
) -> None:
    plan[partition] = [to if each == leaving else each for each in plan[partition]]
    load[leaving] -= 1
    load[to] += 1


def _used(others: Collection[int], racks: Mapping[int, Rack]) -> Counter[Rack]:
    """Return how many of these replicas each rack has."""
    return Counter(racks.get(each, each) for each in others)


def _place(
    others: Collection[int],
    targets: Collection[int],
    load: Mapping[int, int],
    racks: Mapping[int, Rack],
    *,
    most: int | None = None,
) -> int | None:
    """Return the broker for a replica beside these others (rule 3); None if there is none.

    Args:
        most: how many of the others may be on its rack.
    """
    used = _used(others, racks)
    free = [
        each
        for each in targets
        if each not in others and (most is None or used[racks[each]] <= most)
    ]
    return min(free, key=lambda each: (used[racks[each]], load[each], each), default=None)


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
