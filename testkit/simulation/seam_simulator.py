"""Four brokers made of real parts on a virtual clock, faults, and administrators in between.

Theory of operation
-------------------
`cluster_simulator` proves the arithmetic of replication. Faults that were found later sat where two
features meet: a deletion into the middle of a batch, then a new replica; a topic that was deleted
and created again, with a crash in between; a setting of the broker changed while a partition is
led. So the brokers here (`seam_broker`) run nearly all real parts of a broker on a virtual event
loop, and have several topics: one of records, and those of the coordinators. Besides the faults of
`virtual_cluster` administrators act at random (`seam_administrator`): topics are deleted and
created again, records deleted, logs compacted, replicas moved, settings changed, disks filled.
Some histories have transactions over several partitions, and some have none: they are faster.

What must hold, checked whenever a replica shows more, and at the end:

1. what was below any replica's high watermark stays there, unchanged, in every replica, except
   below a log start that was asked for, and except a record that compaction may remove (*lost
   write*, *inconsistent offset*);
2. no record is in a log of a topic that it was not sent to;
3. in one leader epoch only one broker leads, and it has all that is committed;
4. a batch that was acknowledged with acks=all is committed, and only once (*duplicate*), and at its
   append as many replicas were in sync as min.insync.replicas asks for;
5. a reader that polls whichever broker leads never goes back and skips nothing (*non-monotonic
   poll*); one that reads what is committed gets nothing of a transaction that was aborted, or whose
   commit was not asked for (*aborted read*, *precommitted read*);
6. a transaction is committed in all of its partitions or in none, and none hangs;
7. a topic of a coordinator is made with as many replicas as configured, or not at all;
8. when the faults end, all replicas come to the same log and are in sync, moves have ended, and no
   broker has a log that it should not have.
"""

from collections.abc import Iterator, Mapping, Sequence
from unittest.mock import patch
from uuid import UUID

from headrace.broker.config.internal_topic import INTERNAL
from headrace.broker.replica.partition import Partition
from headrace.cluster.entity import decode_entity
from headrace.cluster.topic import TopicRecord
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import LogClosed, StorageError
from headrace.model.ids import TopicPartition
from testkit.simulation.seam_administrator import SeamAdministrator
from testkit.simulation.seam_broker import TOPIC, SeamBroker
from testkit.simulation.seam_client import SeamClient, SeamProducer, SeamReader
from testkit.simulation.seam_history import SeamHistory
from testkit.simulation.session_store import SessionStore
from testkit.simulation.transaction_ledger import TransactionLedger
from testkit.simulation.transactional_producer import TransactionalProducer
from testkit.simulation.virtual_cluster import FAULT_MS, REST_MS, VirtualCluster
from testkit.simulation.virtual_loop import VirtualLoop

BROKERS = (1, 2, 3, 4)
_INTERNAL_REPLICAS = 3
_CRASHES = 0.3
_START_MS = 50
_LATE_START_MS = 1500
_STEP_MS = 150
_SETTLED_STEPS = 4


class SeamSimulator(VirtualCluster):
    """One history. `run()` runs it and raises `Violation` if a rule is broken."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.partition_count = self.random.choice([1, 1, 2])
        self.with_transactions = self.random.random() < 0.5
        self.brokers = {each: self._make_broker(each) for each in BROKERS}
        self.history = SeamHistory(self)
        self.ledger = TransactionLedger(self)
        self.administrator = self._make_administrator()
        self.clients: list[SeamClient] = []
        self._loop = VirtualLoop(self, lambda: None, lambda: 0)
        self.watch()
        self.ensemble.listeners.append(self._check_internal)

    def _make_broker(self, broker_id: int) -> SeamBroker:
        return SeamBroker(self, broker_id)

    def _make_administrator(self) -> SeamAdministrator:
        return SeamAdministrator(self)

    @property
    def members(self) -> Mapping[int, SeamBroker]:
        return self.brokers

    @property
    def names(self) -> list[TopicPartition]:
        """The partitions that clients write to."""
        return [TopicPartition(TOPIC, each) for each in range(self.partition_count)]

    def run(self) -> None:
        try:
            # Ids of topics come from the seed, too: the order of sets depends on them.
            with patch("headrace.cluster.topic.uuid4", self._uuid):
                self._run()
        except LogClosed as error:
            self.fail(f"a broker serves a log that it has deleted: {error}")
        finally:
            self._loop.discard()
            for broker in self.brokers.values():
                broker.close()

    @property
    def _last_start_ms(self) -> int:
        """Every tenth history begins with brokers missing, when coordinators get their topics."""
        return _LATE_START_MS if self.seed % 10 == 9 else _START_MS

    def _uuid(self) -> UUID:
        return UUID(int=self.random.getrandbits(128), version=4)

    def _run(self) -> None:
        for broker in self.brokers.values():
            self.after(self.random.randint(0, self._last_start_ms), broker.start)
        names = self.names
        producers = [SeamProducer(self, each, self.random.choice(names)) for each in (1, 2)]
        committed = self.with_transactions
        readers = [
            SeamReader(self, number, name, committed=committed and number == 2)
            for name in names
            for number in (1, 2)
        ]
        transactional = [
            TransactionalProducer(self, number, names, self._loop)
            for number in ((1, 2) if self.with_transactions else ())
        ]
        self.clients = [*producers, *readers, *transactional, *self._more_clients(self._loop)]
        for client in self.clients:
            self.after(200, client.start)
        self.after(150, self.administrator.step)
        self.after(self.fault_rates.fault_every_ms, self.fault)
        self.play(FAULT_MS)
        self.heal()
        for broker in self.brokers.values():
            broker.make_room()
        self._settle()
        for problem in self._unsettled():
            self.fail(problem)
        self.history.check_end(self.brokers)
        topics = self.brokers[1].state.state.topics
        self.ledger.check_end(
            known
            for (topic_id, _), known in self.history.partitions.items()
            if topic_id == topics[TOPIC].topic_id
        )
        for reader in readers:
            reader.check_end()

    def _settle(self) -> None:
        """Play until everything has come to its end, and some time more, in which it must stay so:
        not the whole rest, which nothing would happen in."""
        end_ms = FAULT_MS + 2 * REST_MS
        calm = 0
        while self.now_ms < end_ms and calm < _SETTLED_STEPS:
            self.play(self.now_ms + _STEP_MS)
            settled = self.idle and next(self._unsettled(), None) is None
            calm = calm + 1 if settled else 0

    def _more_clients(self, loop: VirtualLoop) -> Sequence[SeamClient]:
        """Return the clients that a subclass has besides."""
        return ()

    def _unsettled(self) -> Iterator[str]:
        """Yield what has not come to its end."""
        yield from self.history.unsettled(self.brokers)

    @property
    def idle(self) -> bool:
        """Whether no client has anything to do any more."""
        return not any(each.busy for each in self.clients)

    def heal(self) -> None:
        super().heal()
        self.administrator.heal()

    def connect(self, broker_id: int) -> SessionStore:
        """Return a session; a broker that does not know whether its commit was done may crash."""
        store = SessionStore(self.ensemble)
        self.break_store(store, broker_id)
        fails = store.after

        def after() -> None:
            try:
                fails()
            except StorageError:
                if self.random.random() < _CRASHES:
                    self.uncertain(self.brokers[broker_id])
                raise

        store.after = after
        return store

    # -- what brokers report

    def begins_to_lead(self, broker: SeamBroker, partition: Partition) -> None:
        self.history.begins_to_lead(broker, partition.name)

    def shows(self, broker: SeamBroker, name: TopicPartition, log: PartitionLog) -> None:
        self.history.shows(broker, name, log)

    def _check_internal(self, path: str) -> None:
        """Check a coordinator's topic when it is made (rule 7)."""
        node = self.ensemble.nodes.get(path)
        if node is None or node.version or not path.startswith(f"/{TopicRecord.KIND}/"):
            return
        record = decode_entity(node)
        if isinstance(record, TopicRecord) and record.name in INTERNAL:
            for partition in record.partitions:
                if len(partition.replicas) < _INTERNAL_REPLICAS:
                    self.fail(f"{record.name} was made with {partition.replicas}")
