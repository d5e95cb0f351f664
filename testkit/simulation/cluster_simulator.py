"""Brokers, ZooKeeper and the network on a virtual clock, run from a seed.

Theory of operation
-------------------
The brokers here are made of the same pure parts as the real ones: the controller and its commands
(`cluster`), the leader's arithmetic (`replication.partition_state`), and the search for the offset
where logs diverge (`replication.divergence`). Disk, sockets and ZooKeeper are simulated. What goes
wrong is in `virtual_cluster`; logs on a disk, and what administrators do, in `seam_simulator`.

What must hold, checked at every step:

1. what was below any replica's high watermark at any time stays there, unchanged, for ever;
2. in one leader epoch only one broker leads;
3. a broker that begins to lead (cleanly) has everything that was below any high watermark;
4. a record that was acknowledged with acks=all is below a high watermark;
5. when the faults end, all replicas come to the same log, and are in sync.
"""

from collections.abc import Mapping

from headrace.cluster.entity import encode_entity, entity_path
from headrace.cluster.store import CreateNode
from headrace.cluster.topic import NO_LEADER, PartitionRecord, TopicRecord
from headrace.model.ids import BrokerId
from testkit.simulation.memory_store import MemoryStore
from testkit.simulation.simulated_broker import TOPIC, TOPIC_ID, SimulatedBroker
from testkit.simulation.simulated_log import SimulatedEntry
from testkit.simulation.virtual_cluster import FAULT_MS, REST_MS, VirtualCluster

BROKERS = (1, 2, 3)


class ClusterSimulator(VirtualCluster):
    """One history. `run()` runs it and raises `Violation` if a rule is broken."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.committed: list[SimulatedEntry] = []
        self.acknowledged: dict[int, int] = {}
        self._leaders: dict[int, int] = {}
        self._value = 0
        first = TopicRecord(
            name=TOPIC,
            topic_id=TOPIC_ID,
            partitions=(PartitionRecord.on([BrokerId(each) for each in BROKERS]),),
            configs={"min.insync.replicas": "2"},
        )
        MemoryStore(self.ensemble).commit([CreateNode(entity_path(first), encode_entity(first))])
        self.brokers = {each: SimulatedBroker(self, each) for each in BROKERS}
        self.watch()

    @property
    def members(self) -> Mapping[int, SimulatedBroker]:
        return self.brokers

    def run(self) -> None:
        for broker in self.brokers.values():
            self.after(self.random.randint(0, 50), broker.start)
        self.after(100, self._produce)
        self.after(self.fault_rates.fault_every_ms, self.fault)
        self.play(FAULT_MS)
        self.heal()
        self.play(FAULT_MS + REST_MS)
        self._check_end()

    # -- clients

    def _produce(self) -> None:
        if not self.calm:
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
