"""Where the replicas of new partitions go: spread over brokers, and over racks first.

What holds for every placement:

1. the replicas of a partition lie on different brokers, the first one leads;
2. they lie on as many racks as there are, up to the replication factor, so losing one rack loses
   one of them (a broker without a rack counts as a rack of its own);
3. every broker leads as many partitions as any other, give or take one;
4. partitions that share a leader have different followers, where there are enough brokers: when a
   broker dies its work falls on many and not on one.

With one broker, every replica is on it.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from headrace.model.error import InvalidArgument
from headrace.model.ids import BrokerId


def place(
    racks: Mapping[BrokerId, str | None],
    *,
    partitions: int,
    replication_factor: int,
    start: int = 0,
) -> list[tuple[BrokerId, ...]]:
    """Return replicas for each of `partitions` new partitions.

    Args:
        racks: the brokers that may be used, with their racks.
        start: where on the ring of brokers to begin; another number for each topic, so that small
            topics do not all begin on the same broker.

    >>> place({1: "a", 2: "b", 3: "a", 4: "b"}, partitions=2, replication_factor=2)
    [(1, 2), (2, 3)]
    """
    if partitions < 0 or start < 0:
        raise InvalidArgument(f"{partitions} partitions from {start} on cannot be placed")
    if not 1 <= replication_factor <= len(racks):
        raise InvalidArgument(
            f"{replication_factor} replicas need as many brokers, and there are {len(racks)}"
        )
    # Once: with 100 brokers, making these texts takes most of the time to place a partition.
    names = {broker: _rack(racks, broker) for broker in racks}
    ring = _interleave(names)
    return [
        _replicas(ring, names, number, replication_factor)
        for number in range(start, start + partitions)
    ]


def _interleave(racks: Mapping[BrokerId, str]) -> list[BrokerId]:
    """Return all brokers, neighbours on different racks as far as possible."""
    by_rack: defaultdict[str, list[BrokerId]] = defaultdict(list)
    for broker in sorted(racks):
        by_rack[racks[broker]].append(broker)
    ring: list[BrokerId] = []
    rows = [by_rack[rack] for rack in sorted(by_rack)]
    for turn in range(max(map(len, rows))):
        ring.extend(row[turn] for row in rows if turn < len(row))
    return ring


def _replicas(
    ring: list[BrokerId], racks: Mapping[BrokerId, str], number: int, count: int
) -> tuple[BrokerId, ...]:
    lead = number % len(ring)
    chosen = [ring[lead]]
    used: defaultdict[str, int] = defaultdict(int)
    used[racks[ring[lead]]] += 1
    # Each round over the ring begins its followers one further on (promise 4).
    shift = number // len(ring) % max(len(ring) - 1, 1)
    others = ring[lead + 1 :] + ring[:lead]
    candidates = others[shift:] + others[:shift]
    while len(chosen) < count:
        best = _least_used(candidates, racks, used)
        candidates.remove(best)
        used[racks[best]] += 1
        chosen.append(best)
    return tuple(chosen)


def _least_used(
    candidates: Sequence[BrokerId],
    racks: Mapping[BrokerId, str],
    used: Mapping[str, int],
) -> BrokerId:
    """Return the first candidate on the rack with the fewest replicas."""
    for broker in candidates:
        if racks[broker] not in used:
            return broker
    return min(candidates, key=lambda broker: used[racks[broker]])


def _rack(racks: Mapping[BrokerId, str | None], broker: BrokerId) -> str:
    rack = racks[broker]
    return f"broker {broker}" if rack is None else f"rack {rack}"
