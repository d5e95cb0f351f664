"""Moves replicas from full brokers to emptier ones, until no single move evens the loads out more.

Theory of operation
-------------------
In every step the fullest broker that can give a replica away does so: its first one, by name, that
may go to another broker.

Rule 1: a replica may go to a broker that has at least two replicas fewer, has none of the same
        partition, and is on a rack with no more of the partition's other replicas than the rack
        that it leaves. So no partition gives up a rack.
Rule 2: but for the first condition, whether a replica may go to a broker depends on its partition's
        replicas alone. So a replica that found no broker is *blocked* until another replica of its
        partition moves, or a broker becomes a candidate that it was not compared with. A broker
        whose replicas are all blocked is *stuck* until one of them is not. Without this rule every
        step would look at all replicas of the fullest brokers again: 100 million looks where 10,000
        of them are stuck and 10,000 others move.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from headrace.client.admin.broker_loads import BrokerLoads
from headrace.model.ids import TopicPartition


@dataclass(slots=True)
class _Held:
    """The replicas of one broker, by the numbers of their partitions.

    Attributes:
        untried: a heap of those to look at.
        blocked: those that may go to none of the brokers in `compared`.
    """

    untried: list[int] = field(default_factory=list)
    blocked: set[int] = field(default_factory=set)
    compared: set[int] = field(default_factory=set)


class LoadLeveler:
    """Changes a plan in place.

    Args:
        plan: the replicas of the partitions that may move, all on brokers of `loads`.
        loads: the loads with these and all other partitions.
    """

    def __init__(self, plan: dict[TopicPartition, list[int]], loads: BrokerLoads) -> None:
        self._plan = plan
        self._loads = loads
        self._names = sorted(plan)
        self._held = {broker: _Held() for broker in loads}
        for number, name in enumerate(self._names):
            for broker in plan[name]:
                self._held[broker].untried.append(number)
        self._stuck: set[int] = set()
        # The fullest first. A broker whose load has changed since has a newer entry.
        self._fullest = [(-loads[broker], broker) for broker in loads]
        heapify(self._fullest)

    def run(self) -> None:
        """Move replicas until no broker can give one away."""
        while self._fullest:
            negative, broker = self._fullest[0]
            load = -negative
            if broker in self._stuck or load != self._loads[broker]:
                heappop(self._fullest)
                continue
            candidates = self._loads.below(load - 1)
            if not candidates:
                return  # then the emptier brokers have none either
            found = self._first_movable(broker, candidates)
            if found is None:
                self._stuck.add(broker)
            else:
                self._move(*found, broker)

    def _first_movable(self, broker: int, candidates: Sequence[int]) -> tuple[int, int] | None:
        """Return the first partition whose replica may go from a broker to a candidate, and that
        candidate; None if every replica is blocked."""
        held = self._held[broker]
        new = [each for each in candidates if each not in held.compared]
        if new:
            for number in [each for each in held.blocked if self._fits(each, broker, new)]:
                held.blocked.remove(number)
                heappush(held.untried, number)
        held.compared = set(candidates)
        below = self._loads[broker] - 1
        while held.untried:
            number = heappop(held.untried)
            others, shared = self._others(number, broker)
            chosen = self._loads.place(others, most=shared, below=below)
            if chosen is not None:
                return number, chosen
            held.blocked.add(number)
        return None

    def _others(self, number: int, broker: int) -> tuple[list[int], int]:
        """Return the other replicas of a partition, and how many share the broker's rack."""
        racks = self._loads.racks
        others = [each for each in self._plan[self._names[number]] if each != broker]
        return others, sum(racks[each] == racks[broker] for each in others)

    def _fits(self, number: int, broker: int, candidates: Collection[int]) -> bool:
        """Return whether a replica may go from a broker to any of the candidates (rule 1)."""
        others, shared = self._others(number, broker)
        used, racks = self._loads.used(others), self._loads.racks
        return any(each not in others and used.get(racks[each], 0) <= shared for each in candidates)

    def _move(self, number: int, to: int, leaving: int) -> None:
        name = self._names[number]
        self._plan[name] = [to if each == leaving else each for each in self._plan[name]]
        self._loads.add(leaving, -1)
        self._loads.add(to, 1)
        heappush(self._fullest, (-self._loads[leaving], leaving))
        heappush(self._held[to].untried, number)
        self._wake(to)
        for each in self._plan[name]:
            if number in self._held[each].blocked:
                self._held[each].blocked.remove(number)
                heappush(self._held[each].untried, number)
                self._wake(each)
        for each in tuple(self._stuck):
            is_candidate = self._loads[leaving] < self._loads[each] - 1
            if is_candidate and leaving not in self._held[each].compared:
                self._wake(each)

    def _wake(self, broker: int) -> None:
        """Look at a broker again, at the place that its load has now."""
        self._stuck.discard(broker)
        heappush(self._fullest, (-self._loads[broker], broker))
