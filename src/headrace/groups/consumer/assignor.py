"""Server-side assignors (KIP-848): who should own which partition.

An assignor is a function of the members' subscriptions, the topics and the current target.
It is called for every new group epoch.

Rule 1: every partition of a subscribed topic goes to exactly one member that subscribes to it.
Rule 2: the same input gives the same output; no order of a dict or a set shows through.
Rule 3: a partition stays where it is unless balance asks for the move.

`uniform` balances the number of partitions per member: any two members that subscribe to a topic
differ by at most one, unless the one with more holds no partition of that topic. `range` gives each
member a contiguous range of each topic, the same range in topics of equal size, so that joins by
key meet in one member; it keeps the members in the order in which they hold partitions, which keeps
most ranges in place.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from headrace.groups.topic import GroupTopic, TopicIdPartition

Assignment = dict[str, frozenset[TopicIdPartition]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscriber:
    """A member as an assignor sees it: what it may get, and what the last target gave it."""

    member_id: str
    instance_id: str | None = None
    topics: frozenset[UUID]
    previous: frozenset[TopicIdPartition] = frozenset()


Assignor = Callable[[Mapping[str, Subscriber], Mapping[UUID, GroupTopic]], Assignment]


def assign_uniform(
    members: Mapping[str, Subscriber], topics: Mapping[UUID, GroupTopic]
) -> Assignment:
    """Return a balanced and sticky plan. `topics` holds only topics that exist."""
    owned = _kept(members, topics)
    subscribers = _subscribers(members, topics)
    if len({member.topics for member in members.values()}) == 1:
        _trim_to_quota(
            owned, sum(topics[id_].partition_count for id_ in _subscribed(members, topics))
        )
        _assign_unowned(owned, subscribers, topics)
    else:
        _assign_unowned(owned, subscribers, topics)
        while _balance_once(owned, subscribers, topics):
            pass
    return {member_id: frozenset(partitions) for member_id, partitions in owned.items()}


def assign_range(
    members: Mapping[str, Subscriber], topics: Mapping[UUID, GroupTopic]
) -> Assignment:
    """Return contiguous, co-partitioned ranges. `topics` holds only topics that exist."""
    order = sorted(members.values(), key=_range_order)
    owned: dict[str, set[TopicIdPartition]] = {member_id: set() for member_id in members}
    for topic_id in _subscribed(members, topics):
        subscribers = [member.member_id for member in order if topic_id in member.topics]
        share, extra = divmod(topics[topic_id].partition_count, len(subscribers))
        start = 0
        for index, receiver in enumerate(subscribers):
            end = start + share + (index < extra)
            owned[receiver].update(
                TopicIdPartition(topic_id, number) for number in range(start, end)
            )
            start = end
    return {member_id: frozenset(partitions) for member_id, partitions in owned.items()}


ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}


def _range_order(member: Subscriber) -> tuple[float, bool, str]:
    first = min((item.partition for item in member.previous), default=float("inf"))
    return first, member.instance_id is None, member.instance_id or member.member_id


def _subscribed(members: Mapping[str, Subscriber], topics: Mapping[UUID, GroupTopic]) -> list[UUID]:
    subscriptions = {member.topics for member in members.values()}
    subscribed = frozenset().union(*subscriptions)
    return sorted(subscribed & topics.keys(), key=lambda topic_id: topics[topic_id].name)


def _kept(
    members: Mapping[str, Subscriber], topics: Mapping[UUID, GroupTopic]
) -> dict[str, set[TopicIdPartition]]:
    """Return what each member may keep: it still subscribes, and no other member has it."""
    taken: set[TopicIdPartition] = set()
    owned: dict[str, set[TopicIdPartition]] = {}
    for member_id in sorted(members):
        member = members[member_id]
        kept = {
            partition
            for partition in member.previous - taken
            if partition.topic_id in member.topics
            and partition.topic_id in topics
            and partition.partition < topics[partition.topic_id].partition_count
        }
        taken |= kept
        owned[member_id] = kept
    return owned


def _trim_to_quota(owned: dict[str, set[TopicIdPartition]], total: int) -> None:
    """Take from members what exceeds their share; as all subscribe alike, the shares are known.

    The members that hold most get the one extra, which moves fewest partitions.
    """
    share, extra = divmod(total, len(owned))
    by_size = sorted(owned, key=lambda member_id: (-len(owned[member_id]), member_id))
    for index, member_id in enumerate(by_size):
        quota = share + (index < extra)
        for partition in sorted(owned[member_id])[quota:]:
            owned[member_id].remove(partition)


def _assign_unowned(
    owned: dict[str, set[TopicIdPartition]],
    subscribers_of: Mapping[UUID, list[str]],
    topics: Mapping[UUID, GroupTopic],
) -> None:
    """Assign each partition without an owner to the subscriber that has least.

    Topics with few subscribers go first: their partitions have the least choice.
    """
    taken = set().union(*owned.values())
    heap: list[tuple[int, str]] = []
    heap_of: list[str] | None = None
    for topic_id in sorted(
        subscribers_of, key=lambda id_: (len(subscribers_of[id_]), topics[id_].name)
    ):
        if heap_of is not subscribers_of[topic_id]:
            heap_of = subscribers_of[topic_id]
            heap = [(len(owned[member_id]), member_id) for member_id in heap_of]
            heapq.heapify(heap)
        for number in range(topics[topic_id].partition_count):
            partition = TopicIdPartition(topic_id, number)
            if partition not in taken:
                size, member_id = heap[0]
                owned[member_id].add(partition)
                heapq.heapreplace(heap, (size + 1, member_id))


def _subscribers(
    members: Mapping[str, Subscriber], topics: Mapping[UUID, GroupTopic]
) -> dict[UUID, list[str]]:
    """Return the subscribers of each topic, sorted; topics with the same ones share one list.

    Groups are large and their subscriptions few, so the work is done once per subscription.
    """
    by_subscription: dict[frozenset[UUID], list[str]] = defaultdict(list)
    for member_id in sorted(members):
        by_subscription[members[member_id].topics].append(member_id)
    shared: dict[frozenset[frozenset[UUID]], list[str]] = {}
    subscribers: dict[UUID, list[str]] = {}
    for topic_id in _subscribed(members, topics):
        subscriptions = frozenset(each for each in by_subscription if topic_id in each)
        if subscriptions not in shared:
            shared[subscriptions] = sorted(
                id_ for each in subscriptions for id_ in by_subscription[each]
            )
        subscribers[topic_id] = shared[subscriptions]
    return subscribers


def _balance_once(
    owned: dict[str, set[TopicIdPartition]],
    subscribers_of: Mapping[UUID, list[str]],
    topics: Mapping[UUID, GroupTopic],
) -> bool:
    """Move partitions, topic by topic, from the largest member to the smallest.

    Returns whether any moved.

    The giver of a partition has at least two more than the receiver, so the sum of the squared
    sizes falls with each move and the repetition ends. A topic is looked at only through its
    holders; who of its subscribers is the smallest is found again after moves alone. So the work
    grows with the partitions, and not with topics times members.
    """
    moved = False
    held: dict[UUID, dict[str, list[TopicIdPartition]]] = defaultdict(lambda: defaultdict(list))
    for member_id in sorted(owned):
        for partition in sorted(owned[member_id]):
            held[partition.topic_id][member_id].append(partition)
    smallest: dict[int, str] = {}  # by the identity of the list: topics share few of them
    for topic_id in sorted(held, key=lambda id_: topics[id_].name):
        subscribers, holders = subscribers_of[topic_id], held[topic_id]
        while holders:
            if id(subscribers) not in smallest:
                smallest[id(subscribers)] = min(subscribers, key=lambda id_: len(owned[id_]))
            receiver = smallest[id(subscribers)]
            giver = max(holders, key=lambda id_: len(owned[id_]))
            if len(owned[giver]) - len(owned[receiver]) < 2:
                break
            partition = holders[giver].pop()
            if not holders[giver]:
                del holders[giver]
            owned[giver].remove(partition)
            # It was the smallest, so it will give away none of this topic: `held` need not know.
            owned[receiver].add(partition)
            smallest.clear()
            moved = True
    return moved
