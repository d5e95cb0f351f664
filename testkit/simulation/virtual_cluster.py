"""A virtual clock, a network and ZooKeeper between simulated brokers, broken from a seed.

Everything that happens is an event in one queue, ordered by virtual time; every choice comes from
one random generator. So a seed is a whole history: run it again and the same happens.

What goes wrong: messages are lost, late and out of order; brokers are cut off from each other and
from ZooKeeper, for less and for more than their sessions; commits are done and their answers lost;
watch events come late; brokers crash and start again, several at a time.
"""

import heapq
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn, Protocol

from headrace.cluster.broker import BrokerRecord
from headrace.model.error import StorageError
from headrace.model.ids import BrokerId
from testkit.simulation.memory_store import Ensemble, MemoryStore

SESSION_MS = 600
FAULT_MS = 4_000
REST_MS = 3_000
MOST_EVENTS = 500_000
"""A history has some ten thousand."""


class Violation(AssertionError):
    """Something that must hold did not. The message ends with the history of the seed.

    Not a `HeadraceError`: the parts under test must not take it for one of theirs.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRates:
    """How many faults a history has; drawn from its seed."""

    loss: float
    slow_ms: int
    lost_answers: float
    fault_every_ms: int


class VirtualBroker(Protocol):
    """A broker as the virtual cluster breaks it."""

    broker_id: BrokerId
    running: bool
    store: MemoryStore | None

    @property
    def leads(self) -> bool: ...
    def start(self) -> None: ...
    def crash(self) -> None: ...
    def back(self) -> None:
        """Go on after a cut from ZooKeeper."""

    def heard(self, path: str) -> None:
        """Take a watch event."""


class VirtualCluster:
    """Clock, network, ZooKeeper and faults. What runs on it, and what must hold, is a subclass's.

    Attributes:
        calm: no more faults: everything must come to an end.
        events: how many have happened.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now_ms = 0
        self.trace: list[str] = []
        self.calm = False
        self.ensemble = Ensemble()
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self.events = 0
        self._cut: set[frozenset[int]] = set()
        self.fault_rates = FaultRates(
            loss=self.random.choice([0.0, 0.02, 0.2]),
            slow_ms=self.random.choice([5, 30, 150]),
            lost_answers=self.random.choice([0.0, 0.05, 0.3]),
            fault_every_ms=self.random.choice([150, 400, 1500]),
        )

    @property
    def members(self) -> Mapping[int, VirtualBroker]:
        """All brokers, by id."""
        raise NotImplementedError

    # -- time

    def play(self, until_ms: int) -> None:
        while self._queue and self._queue[0][0] <= until_ms:
            self.now_ms, _, event = heapq.heappop(self._queue)
            event()
            self.events += 1
            if self.events > MOST_EVENTS:
                self.fail("this history does not end")
        self.now_ms = until_ms

    def after(self, wait_ms: int, event: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.now_ms + wait_ms, self._count, event))

    def say(self, who: object, what: str) -> None:
        self.trace.append(f"{self.now_ms:6} {who}: {what}")

    def fail(self, what: str) -> NoReturn:
        history = "\n".join(self.trace[-400:])
        raise Violation(
            f"seed {self.seed} at {self.now_ms} ms: {what}\n"
            f"play it again with {type(self).__name__}({self.seed}).run()\n{history}"
        )

    # -- the network

    def reachable(self, one: int, other: int) -> bool:
        return frozenset((one, other)) not in self._cut

    def send(self, sender: int, receiver: int, deliver: Callable[[], None]) -> None:
        """Send a message: late by chance, and lost by chance or because of a network cut."""
        if not self.calm and self.random.random() < self.fault_rates.loss:
            return
        late = self.random.randint(1, 5 if self.calm else self.fault_rates.slow_ms)

        def arrive() -> None:
            if self.reachable(sender, receiver):
                deliver()

        self.after(late, arrive)

    # -- ZooKeeper, as number 0

    def connect(self, broker_id: int) -> MemoryStore:
        """Return a session that fails during a cut of the broker, and whose replies may be lost."""
        store = MemoryStore(self.ensemble)
        self.break_store(store, broker_id)
        return store

    def break_store(self, store: MemoryStore, broker_id: int) -> None:
        """Let a session fail as `connect` says."""

        def before() -> None:
            if not self.reachable(0, broker_id):
                raise StorageError("cut off from ZooKeeper")

        def after() -> None:
            if not self.calm and self.random.random() < self.fault_rates.lost_answers:
                raise StorageError("the answer was lost")

        store.before, store.after = before, after

    def watch(self) -> None:
        """Send every broker the watch events of what is written from now on."""
        self.ensemble.listeners.append(self._fire_watches)

    def _fire_watches(self, path: str) -> None:
        for broker in self.members.values():
            self._fire_watch(broker, path)

    def _fire_watch(self, broker: VirtualBroker, path: str) -> None:
        late = self.random.randint(1, 5 if self.calm else self.fault_rates.slow_ms)

        def arrive() -> None:
            # A watch is not lost: a broker that is cut off reads everything when it is back.
            if self.reachable(0, broker.broker_id):
                broker.heard(path)

        self.after(late, arrive)

    def registration(self, broker_id: int) -> BrokerRecord:
        return BrokerRecord(broker_id=BrokerId(broker_id), endpoints=(), home=f"home {broker_id}")

    # -- faults

    def fault(self) -> None:
        """Break something, and again after a random time until it is calm."""
        if self.calm:
            return
        self.after(self.random.randint(1, 2 * self.fault_rates.fault_every_ms), self.fault)
        broker = self.random.choice(list(self.members.values()))
        kind = self.random.choice(["crash", "crash leader", "cut", "cut from zookeeper"])
        if kind == "crash leader":
            leading = [each for each in self.members.values() if each.leads]
            broker = self.random.choice(leading or [broker])
        if kind.startswith("crash"):
            self._crash(broker)
        elif kind == "cut":
            others = [each for each in self.members if each != broker.broker_id]
            self._cut_off(broker.broker_id, self.random.choice(others))
        else:
            self._cut_off(0, broker.broker_id)

    def uncertain(self, broker: VirtualBroker) -> None:
        """Crash a leader that does not know whether its commit was done."""
        if not self.calm and self.random.random() < 0.5:
            self.after(self.random.randint(1, 50), lambda: self._crash(broker))

    def _crash(self, broker: VirtualBroker) -> None:
        if not broker.running:
            return
        store = broker.store
        broker.crash()
        if store is not None:
            self.after(SESSION_MS, store.close)
        self.after(self.random.randint(1, 3 * SESSION_MS), broker.start)

    def _cut_off(self, one: int, other: int) -> None:
        pair = frozenset((one, other))
        if pair in self._cut:
            return
        self._cut.add(pair)
        self.say("network", f"cut {sorted(pair)}")
        lasts_ms = self.random.randint(1, 3 * SESSION_MS)
        store = self.members[other].store if one == 0 else None
        if store is not None and lasts_ms > SESSION_MS:

            def end_session() -> None:
                if pair in self._cut:
                    store.close()

            self.after(SESSION_MS, end_session)
        self.after(lasts_ms, lambda: self._mend(pair))

    def _mend(self, pair: frozenset[int]) -> None:
        if pair not in self._cut:
            return
        self._cut.discard(pair)
        self.say("network", f"mended {sorted(pair)}")
        if 0 in pair:
            (number,) = pair - {0}
            self.members[number].back()

    def heal(self) -> None:
        """End every fault, and start every broker that is down."""
        self.calm = True
        self.say("network", "calm from here on")
        for pair in list(self._cut):
            self._mend(pair)
        for broker in self.members.values():
            if not broker.running:
                self.after(1, broker.start)
