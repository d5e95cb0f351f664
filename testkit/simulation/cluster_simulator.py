"""Brokers, ZooKeeper and the network on a virtual clock, run from a seed.

Theory of operation
-------------------
Everything that happens is an event in one queue, ordered by virtual time; every choice comes from
one random generator. So a seed is a whole history: run it again and the same happens. The brokers
here are made of the same pure parts as the real ones: the controller and its commands (`cluster`),
the leader's arithmetic (`replication.partition_state`), and the search for the offset where logs
diverge (`replication.divergence`). Disk, sockets and ZooKeeper are simulated.

What goes wrong: messages are lost, late and out of order; brokers are cut off from each other and
from ZooKeeper, for less and for more than their sessions; commits are done and their answers lost;
watch events come late; brokers crash and start again, several at a time.

What must hold, checked at every step:

1. what was below any replica's high watermark at any time stays there, unchanged, for ever;
2. in one leader epoch only one broker leads;
3. a broker that begins to lead (cleanly) has everything that was below any high watermark;
4. a record that was acknowledged with acks=all is below a high watermark;
5. when the faults end, all replicas come to the same log, and are in sync.
"""

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass

from headrace.cluster.broker import BrokerRecord
from headrace.cluster.entity import encode_entity, entity_path
from headrace.cluster.store import CreateNode
from headrace.cluster.topic import NO_LEADER, PartitionRecord, TopicRecord
from headrace.model.error import HeadraceError, StorageError
from headrace.model.ids import BrokerId
from testkit.simulation.memory_store import Ensemble, MemoryStore
from testkit.simulation.simulated_broker import TOPIC, TOPIC_ID, SimulatedBroker
from testkit.simulation.simulated_log import SimulatedEntry

BROKERS = (1, 2, 3)
SESSION_MS = 600
FAULT_MS = 4_000
REST_MS = 3_000


class Violation(HeadraceError, AssertionError):
    """Something that must hold did not. The message ends with the history of the seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultRates:
    """How many faults a history has; drawn from its seed."""

    loss: float
    slow_ms: int
    lost_answers: float
    fault_every_ms: int


class ClusterSimulator:
    """One history. `run()` runs it and raises `Violation` if a rule is broken."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.now_ms = 0
        self.trace: list[str] = []
        self.committed: list[SimulatedEntry] = []
        self.acknowledged: dict[int, int] = {}
        self._leaders: dict[int, int] = {}
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0
        self._value = 0
        self._cut: set[frozenset[int]] = set()
        self._calm = False
        self.fault_rates = FaultRates(
            loss=self.random.choice([0.0, 0.02, 0.2]),
            slow_ms=self.random.choice([5, 30, 150]),
            lost_answers=self.random.choice([0.0, 0.05, 0.3]),
            fault_every_ms=self.random.choice([150, 400, 1500]),
        )
        self.ensemble = Ensemble()
        first = TopicRecord(
            name=TOPIC,
            topic_id=TOPIC_ID,
            partitions=(PartitionRecord.on([BrokerId(each) for each in BROKERS]),),
            configs={"min.insync.replicas": "2"},
        )
        MemoryStore(self.ensemble).commit([CreateNode(entity_path(first), encode_entity(first))])
        self.brokers = {each: SimulatedBroker(self, each) for each in BROKERS}
        self.ensemble.listeners.append(self._fire_watches)

    # -- running

    def run(self) -> None:
        for broker in self.brokers.values():
            self.after(self.random.randint(0, 50), broker.start)
        self.after(100, self._produce)
        self.after(self.fault_rates.fault_every_ms, self._fault)
        self._play(FAULT_MS)
        self._heal()
        self._play(FAULT_MS + REST_MS)
        self._check_end()

    def _play(self, until_ms: int) -> None:
        while self._queue and self._queue[0][0] <= until_ms:
            self.now_ms, _, event = heapq.heappop(self._queue)
            event()
        self.now_ms = until_ms

    def after(self, wait_ms: int, event: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._queue, (self.now_ms + wait_ms, self._count, event))

    def say(self, who: object, what: str) -> None:
        self.trace.append(f"{self.now_ms:6} {who}: {what}")

    # -- the network

    def reachable(self, one: int, other: int) -> bool:
        return frozenset((one, other)) not in self._cut

    def send(self, sender: int, receiver: int, deliver: Callable[[], None]) -> None:
        """Send a message: late by chance, and lost by chance or because of a network cut."""
        if not self._calm and self.random.random() < self.fault_rates.loss:
            return
        late = self.random.randint(1, 5 if self._calm else self.fault_rates.slow_ms)

        def arrive() -> None:
            if self.reachable(sender, receiver):
                deliver()

        self.after(late, arrive)

    # -- ZooKeeper, as number 0

    def connect(self, broker_id: int) -> MemoryStore:
        """Return a session that fails during a cut of the broker, and whose replies may be lost."""
        store = MemoryStore(self.ensemble)

        def before() -> None:
            if not self.reachable(0, broker_id):
                raise StorageError("cut off from ZooKeeper")

        def after() -> None:
            if not self._calm and self.random.random() < self.fault_rates.lost_answers:
                raise StorageError("the answer was lost")

        store.before, store.after = before, after
        return store

    def _fire_watches(self, path: str) -> None:
        for broker in self.brokers.values():
            self._fire_watch(broker, path)

    def _fire_watch(self, broker: SimulatedBroker, path: str) -> None:
        late = self.random.randint(1, 5 if self._calm else self.fault_rates.slow_ms)

        def arrive() -> None:
            # A watch is not lost: a broker that is cut off reads everything when it is back.
            if self.reachable(0, broker.broker_id):
                broker.heard(path)

        self.after(late, arrive)

    # -- faults

    def _fault(self) -> None:
        if self._calm:
            return
        self.after(self.random.randint(1, 2 * self.fault_rates.fault_every_ms), self._fault)
        broker = self.random.choice(list(self.brokers.values()))
        kind = self.random.choice(["crash", "crash leader", "cut", "cut from zookeeper"])
        if kind == "crash leader":
            leading = [each for each in self.brokers.values() if each.state is not None]
            broker = self.random.choice(leading or [broker])
        if kind.startswith("crash"):
            self._crash(broker)
        elif kind == "cut":
            other = self.random.choice([each for each in BROKERS if each != broker.broker_id])
            self._cut_off(broker.broker_id, other)
        else:
            self._cut_off(0, broker.broker_id)

    def uncertain(self, broker: SimulatedBroker) -> None:
        """Crash a leader that does not know whether its commit was done."""
        if not self._calm and self.random.random() < 0.5:
            self.after(self.random.randint(1, 50), lambda: self._crash(broker))

    def _crash(self, broker: SimulatedBroker) -> None:
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
        store = self.brokers[other].store if one == 0 else None
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
            self.brokers[number].back()

    def _heal(self) -> None:
        self._calm = True
        self.say("network", "calm from here on")
        for pair in list(self._cut):
            self._mend(pair)
        for broker in self.brokers.values():
            if not broker.running:
                self.after(1, broker.start)

    # -- clients

    def _produce(self) -> None:
        if not self._calm:
            self.after(self.random.randint(1, 40), self._produce)
        for broker in self.brokers.values():
            if broker.running and broker.state is not None and self.random.random() < 0.7:
                self._value += 1
                broker.produce(self._value)

    # -- what must hold

    def acknowledge(self, broker_id: int, offset: int, value: int) -> None:
        self.say(f"broker {broker_id}", f"acknowledged {value} at {offset}")
        self.acknowledged[offset] = value
        if offset >= len(self.committed) or self.committed[offset].value != value:
            self.fail(f"{value} was acknowledged at {offset} and is not committed")

    def leads(self, broker_id: int, epoch: int, entries: list[SimulatedEntry]) -> None:
        other = self._leaders.setdefault(epoch, broker_id)
        if other != broker_id:
            self.fail(f"brokers {other} and {broker_id} both lead in epoch {epoch}")
        if entries[: len(self.committed)] != self.committed:
            self.fail(f"broker {broker_id} leads without all that is committed")

    def shows(self, broker_id: int, entries: list[SimulatedEntry], high_watermark: int) -> None:
        """Check what a replica would serve: its log up to its high watermark."""
        shared = min(high_watermark, len(self.committed))
        if entries[:shared] != self.committed[:shared]:
            self.fail(f"broker {broker_id} shows other records than were committed")
        if high_watermark > len(self.committed):
            self.committed.extend(entries[len(self.committed) : high_watermark])

    def _check_end(self) -> None:
        record = self.brokers[1].partition
        if record is None or record.leader == NO_LEADER or set(record.isr) != set(BROKERS):
            self.fail(f"the cluster did not recover: {record}")
        logs = [broker.log.entries for broker in self.brokers.values()]
        if any(log != logs[0] for log in logs) or logs[0] != self.committed:
            self.fail(f"the logs differ: {[len(log) for log in logs]}, {len(self.committed)}")
        for offset, value in self.acknowledged.items():
            if self.committed[offset].value != value:
                self.fail(f"{value} was acknowledged at {offset} and is gone")

    def fail(self, what: str) -> None:
        history = "\n".join(self.trace[-400:])
        raise Violation(
            f"seed {self.seed} at {self.now_ms} ms: {what}\n"
            f"play it again with ClusterSimulator({self.seed}).run()\n{history}"
        )

    def registration(self, broker_id: int) -> BrokerRecord:
        return BrokerRecord(broker_id=BrokerId(broker_id), endpoints=(), home=f"home {broker_id}")
