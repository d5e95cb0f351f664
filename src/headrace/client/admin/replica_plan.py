"""Plans which replicas to move: to balance the brokers, or to empty one.

Pure: takes the metadata of a cluster, returns the replicas that partitions should have. Rules:

1. a partition keeps its number of replicas, each on another broker;
2. as few replicas move as it takes;
3. a partition ends on as many racks as there are, up to its number of replicas: a replica moves to
   the rack that has the fewest of its partition's other replicas, and there to the broker with the
   fewest replicas of all. To even out the load no partition gives up a rack (a broker without a
   rack counts as a rack of its own);
4. every broker has about as many first replicas, which are the preferred leaders;
5. a partition that is being moved counts as being where it moves to;
6. a partition with a replica on a broker that is not running is left as it is: a cluster says the
   racks of running brokers only, so that another replica might come to stand beside that one. Only
   `decommission` of that broker moves it.
"""

from collections import Counter
from collections.abc import Mapping

from headrace.client.admin.broker_loads import BrokerLoads, Rack
from headrace.client.admin.load_leveler import LoadLeveler
from headrace.client.admin.replica_admin import Move
from headrace.client.network.metadata import Metadata
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition

ReplicaAssignment = dict[TopicPartition, list[int]]
Moves = Mapping[TopicPartition, Move]
"""The moves that are under way."""

_NO_MOVES: Moves = {}


def current(metadata: Metadata, moves: Moves = _NO_MOVES) -> ReplicaAssignment:
    """Return the replicas that each partition has now, or will have after its move (rule 5)."""
    found: ReplicaAssignment = {}
    for _, topic in sorted(metadata.topics.items()):
        for index, partition in topic.partitions.items():
            name = topic.partition(index)
            leaving = moves[name].removing if name in moves else ()
            replicas = [each for each in partition.replicas if each not in leaving]
            if replicas:
                found[name] = replicas
    return found


def absent_replicas(metadata: Metadata, moves: Moves = _NO_MOVES) -> dict[TopicPartition, int]:
    """Return the partitions with a replica on a broker that is not running, with one such broker:
    `rebalance` leaves them as they are (rule 6)."""
    return {
        partition: absent[0]
        for partition, replicas in current(metadata, moves).items()
        if (absent := [each for each in replicas if each not in metadata.brokers])
    }


def decommission(metadata: Metadata, leaving: int, moves: Moves = _NO_MOVES) -> ReplicaAssignment:
    """Return the moves that leave a broker without replicas; it need not be running.

    Raises:
        InvalidArgument: too few brokers would be left for a partition's replicas, or another of
            its brokers is not running, or none that has all its records.
    """
    racks = {broker: rack for broker, rack in _racks(metadata).items() if broker != leaving}
    before = current(metadata, moves)
    loads = BrokerLoads(racks, before.values())
    plan: ReplicaAssignment = {}
    for partition, replicas in before.items():
        if leaving not in replicas:
            continue
        others = [each for each in replicas if each != leaving]
        _check_running(metadata, partition, leaving, others)
        chosen = loads.place(others)
        if chosen is None:
            raise InvalidArgument(
                f"{partition} has {len(replicas)} replicas and there would be {len(racks)} "
                "brokers: add a broker first, or move it to fewer replicas"
            )
        loads.add(chosen, 1)
        plan[partition] = [chosen if each == leaving else each for each in replicas]
    return plan


def _check_running(
    metadata: Metadata, partition: TopicPartition, leaving: int, others: list[int]
) -> None:
    absent = [each for each in others if each not in metadata.brokers]
    if absent:
        raise InvalidArgument(
            f"{partition} also has a replica on broker {absent[0]}, which is not running: its "
            "rack is not known, and both replicas could come to stand on one machine. Start it, "
            f"or move everything off it first: headrace cluster decommission {absent[0]}"
        )
    in_sync = metadata.topics[partition.topic].partitions[partition.partition].in_sync
    if not any(each in metadata.brokers for each in in_sync):
        holders = ", ".join(map(str, in_sync)) or str(leaving)
        raise InvalidArgument(
            f"{partition} has all its records only on broker {holders}, which is not running: "
            "start it, so that another broker can copy them"
        )


def rebalance(metadata: Metadata, moves: Moves = _NO_MOVES) -> ReplicaAssignment:
    """Return the moves after which every partition is on as many racks as it can be, and brokers
    have and lead as many replicas as that allows: without racks all the same, within one."""
    racks = _racks(metadata)
    before = current(metadata, moves)
    after = {
        partition: list(replicas)
        for partition, replicas in before.items()
        if all(each in racks for each in replicas)  # rule 6
    }
    loads = BrokerLoads(racks, before.values())
    _spread(after, loads)
    LoadLeveler(after, loads).run()
    _even_leaders(after, Counter(replicas[0] for replicas in {**before, **after}.values()))
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


def _spread(plan: ReplicaAssignment, loads: BrokerLoads) -> None:
    """Move replicas that share a rack, while another rack has fewer of their partition."""
    for partition in sorted(plan):
        while _spread_one(plan, partition, loads):
            pass


def _spread_one(plan: ReplicaAssignment, partition: TopicPartition, loads: BrokerLoads) -> bool:
    replicas = plan[partition]
    used = loads.used(replicas)
    if len(used) == len(replicas):
        return False  # nearly every partition
    for leaving in sorted(replicas, key=lambda each: -loads[each]):
        others = [each for each in replicas if each != leaving]
        shared = used[loads.racks[leaving]] - 1
        chosen = loads.place(others, most=shared - 1)
        if chosen is not None:
            plan[partition] = [chosen if each == leaving else each for each in replicas]
            loads.add(leaving, -1)
            loads.add(chosen, 1)
            return True
    return False


def _even_leaders(plan: ReplicaAssignment, leads: Counter[int]) -> None:
    """Reorder replicas, which moves no data, until no broker leads two more than another.

    Args:
        leads: how many first replicas each broker has, of these and of all other partitions.
    """
    for partition, replicas in sorted(plan.items()):
        first = replicas[0]
        best = min(replicas, key=lambda each: (leads[each], replicas.index(each)))
        if leads[best] + 1 < leads[first]:
            leads[first] -= 1
            leads[best] += 1
            plan[partition] = [best, *(each for each in replicas if each != best)]
