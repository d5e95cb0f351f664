"""How many replicas each running broker has, and which broker the next replica goes to."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

Rack = str | int
"""A rack's name, or the id of a broker without a rack."""


class BrokerLoads:
    """The running brokers, in the order of their loads: finding the emptiest one is no search.

    Args:
        racks: the rack of each broker that may get replicas, by its id.
        assigned: the replicas of all partitions; those on other brokers are not counted.
    """

    def __init__(self, racks: Mapping[int, Rack], assigned: Iterable[Collection[int]]) -> None:
        self.racks = racks
        counted = Counter(each for replicas in assigned for each in replicas)
        self._loads = {broker: counted[broker] for broker in racks}
        self._order = sorted((load, broker) for broker, load in self._loads.items())
        self._rack_count = len(set(racks.values()))

    def __iter__(self) -> Iterator[int]:
        return iter(self._loads)

    def __getitem__(self, broker: int) -> int:
        return self._loads[broker]

    def below(self, load: int) -> list[int]:
        """Return the brokers with fewer replicas than this, the emptiest first."""
        return [broker for _, broker in self._order[: bisect_left(self._order, (load, -1))]]

    def add(self, broker: int, replicas: int) -> None:
        """Count replicas that a broker gets; fewer than none for those it gives away."""
        load = self._loads[broker]
        del self._order[bisect_left(self._order, (load, broker))]
        self._loads[broker] = load + replicas
        insort(self._order, (load + replicas, broker))

    def used(self, replicas: Iterable[int]) -> dict[Rack, int]:
        """Return how many of these replicas each rack has, without racks that have none."""
        used: dict[Rack, int] = {}
        for each in replicas:
            rack = self.racks[each]
            used[rack] = used.get(rack, 0) + 1
        return used

    def place(
        self, others: Collection[int], *, most: int | None = None, below: int | None = None
    ) -> int | None:
        """Return the broker for a replica beside these others; None if there is none.

        It is on the rack with the fewest of the others, and there the one with the fewest replicas.

        Args:
            most: how many of the others may be on its rack.
            below: it has fewer replicas than this.
        """
        used = self.used(others)
        fewest = 0 if len(used) < self._rack_count else min(used.values(), default=0)
        limit = len(others) if most is None else most
        if fewest > limit:
            return None
        best, shared = None, limit + 1
        for load, broker in self._order:
            if below is not None and load >= below:
                break
            if broker in others:
                continue
            here = used.get(self.racks[broker], 0)
            if here < shared:
                best, shared = broker, here
                if here == fewest:
                    break
        return best
