"""One broker of the cluster simulator: the pure parts of a real one, and a log in memory."""

from collections.abc import Callable
from random import Random
from typing import NamedTuple, Protocol
from uuid import UUID

from headrace.cluster.broker import BrokerRecord
from headrace.cluster.controller import Controller
from headrace.cluster.partition_command import IsrProposal
from headrace.cluster.store import node_path
from headrace.cluster.term import CONTROLLER_PATH
from headrace.cluster.topic import PartitionRecord, TopicRecord
from headrace.model.error import BrokerIdTaken, StorageError, VersionConflict
from headrace.model.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from headrace.model.offset import HighWatermark, LogEndOffset
from headrace.replication.divergence import Divergence, cut_offset, divergence
from headrace.replication.partition_state import PartitionState
from testkit.simulation.memory_store import MemoryStore
from testkit.simulation.simulated_log import SimulatedEntry, SimulatedLog

TOPIC = "orders"
TOPIC_ID = TopicId(UUID(int=7))
PARTITION = TopicPartition(TOPIC, 0)
MIN_INSYNC = 2

_TICK_MS = 40
_FETCH_AGAIN_MS = 120
_LAG_MS = 200
_RETRY_MS = 60
_POLL_MS = 25
_FETCH_ENTRIES = 3


class SimulatorHost(Protocol):
    """What a broker needs of the simulator."""

    now_ms: int
    random: Random
    brokers: "dict[int, SimulatedBroker]"

    def after(self, wait_ms: int, event: Callable[[], None]) -> None: ...
    def say(self, who: object, what: str) -> None: ...
    def send(self, sender: int, receiver: int, deliver: Callable[[], None]) -> None: ...
    def connect(self, broker_id: int) -> MemoryStore: ...
    def uncertain(self, broker: "SimulatedBroker") -> None: ...
    def registration(self, broker_id: int) -> BrokerRecord: ...
    def acknowledge(self, broker_id: int, offset: int, value: int) -> None: ...
    def leads(self, broker_id: int, epoch: int, entries: list[SimulatedEntry]) -> None: ...
    def shows(self, broker_id: int, entries: list[SimulatedEntry], high_watermark: int) -> None: ...


class Fetch(NamedTuple):
    """A follower's fetch request."""

    replica: int
    broker_epoch: int
    leader_epoch: int
    offset: int
    last_epoch: int


class SimulatedFetch(NamedTuple):
    """A leader's reply; `entries` None means that it does not lead in that epoch."""

    entries: list[SimulatedEntry] | None
    high_watermark: int = 0
    diverging: Divergence | None = None


class SimulatedBroker:
    """Leads or follows the one partition there is, and is the controller if it can."""

    def __init__(self, host: SimulatorHost, broker_id: int) -> None:
        self.broker_id = BrokerId(broker_id)
        self.log = SimulatedLog()
        self.running = False
        self.store: MemoryStore | None = None
        self.state: PartitionState | None = None
        self.partition: PartitionRecord | None = None
        self._host = host
        self._checkpoint = 0
        self._high_watermark = 0
        self._life = 0
        self._epoch = -1
        self._controller: Controller | None = None
        self._registered = False
        self._unheard: set[str] = set()
        self._waiting: list[tuple[int, int]] = []
        self._fetch_number = 0
        self._asked_ms = 0
        self._committing = False

    @property
    def leads(self) -> bool:
        return self.state is not None

    def _say(self, what: str) -> None:
        self._host.say(f"broker {self.broker_id}", what)

    def _after(self, wait_ms: int, event: Callable[[], None]) -> None:
        """Let an event happen later, unless the broker crashes before."""
        life = self._life

        def unless_crashed() -> None:
            if self.running and self._life == life:
                event()

        self._host.after(wait_ms, unless_crashed)

    # -- coming and going

    def start(self) -> None:
        if self.running:
            return
        self.running = True
        self._life += 1
        self._say("started")
        self._high_watermark = min(self._checkpoint, self.log.log_end_offset)
        self._join()
        self._after(_TICK_MS, self._tick)

    def crash(self) -> None:
        self._say(f"crashed at {self.log.log_end_offset}")
        self.running = False
        # A checkpoint of the high watermark is as old as it may be.
        self._checkpoint = self._host.random.randint(0, self._high_watermark)
        self._forget()

    def _forget(self) -> None:
        self.state = self.partition = self.store = self._controller = None
        self._registered = False
        self._committing = False
        self._unheard.clear()
        self._waiting.clear()

    def back(self) -> None:
        """Go on after a cut from ZooKeeper; the session may be over."""
        if not self.running:
            return
        if self.store is None or self.store.expired:
            self._say("comes back with a new session")
            self._forget()
            self._join()
        else:
            self._look_again()

    def _join(self) -> None:
        """Register, which first removes what the last run left behind; retry until it works."""
        try:
            self.store = self._host.connect(self.broker_id)
            self._controller = Controller(self.store)
            self._epoch = self._controller.join(self._host.registration(self.broker_id)).epoch
        except (StorageError, VersionConflict, BrokerIdTaken):
            self._after(_RETRY_MS, self._join)
            return
        self._registered = True
        self._say(f"joined with broker epoch {self._epoch}")
        self._look_again()

    # -- watch events from ZooKeeper

    def heard(self, path: str) -> None:
        watched = path == CONTROLLER_PATH or path.startswith(("/topics/", "/brokers/"))
        if watched and self.running and self._registered:
            self._unheard.add(path)
            self._catch_up()

    def _look_again(self) -> None:
        brokers = (node_path(BrokerRecord.KIND, str(each)) for each in self._host.brokers)
        self._unheard |= {node_path(TopicRecord.KIND, TOPIC), CONTROLLER_PATH, *brokers}
        self._catch_up()

    def _catch_up(self) -> None:
        controller = self._controller
        if controller is None or not self._registered:
            return
        try:
            if CONTROLLER_PATH in self._unheard:
                controller.claim_term(self.broker_id)
            controller.catch_up(self._unheard - {CONTROLLER_PATH})
            self._unheard.clear()
            if controller.in_term:
                controller.settle()
        except VersionConflict:
            self._unheard.add(CONTROLLER_PATH)
            self._after(_RETRY_MS, self._catch_up)
        except StorageError:
            self._after(_RETRY_MS, self._look_again)
        self._follow()

    def _follow(self) -> None:
        """Lead or follow, according to the state that this broker knows."""
        controller = self._controller
        topic = None if controller is None else controller.state.topics.get(TOPIC)
        if topic is None or topic.partitions[0] == self.partition:
            return
        before, self.partition = self.partition, topic.partitions[0]
        leads = self.partition.leader == self.broker_id
        fresh = before is None or before.leader_epoch != self.partition.leader_epoch
        if leads and (fresh or self.state is None):
            self._lead(self.partition)
        elif leads and self.state is not None:
            self.state.set_isr(self.partition.isr, self.partition.partition_epoch)
            self._committing = False
            self._show()
        elif fresh or self.state is not None:
            self.state = None
            self._waiting.clear()
            self._fetch()

    def _lead(self, partition: PartitionRecord) -> None:
        self._say(f"leads in epoch {partition.leader_epoch} with {sorted(partition.isr)}")
        self._host.leads(self.broker_id, partition.leader_epoch, self.log.entries)
        self.log.begin_epoch(partition.leader_epoch)
        self._waiting.clear()
        self._committing = False
        self.state = PartitionState(
            broker_id=self.broker_id,
            leader_epoch=partition.leader_epoch,
            partition_epoch=partition.partition_epoch,
            isr=partition.isr,
            replicas=partition.replicas,
            log_end=LogEndOffset(self.log.log_end_offset),
            high_watermark=HighWatermark(self._high_watermark),
            min_insync=MIN_INSYNC,
            now_ms=self._host.now_ms,
        )
        self._show()

    # -- leading

    def produce(self, value: int) -> None:
        state = self.state
        if state is None or not state.has_enough(MIN_INSYNC):
            return
        offset = self.log.log_end_offset
        self.log.append([SimulatedEntry(state.leader_epoch, value)])
        self._waiting.append((offset, value))
        self._say(f"appended {value} at {offset} in epoch {state.leader_epoch}")
        state.appended(LogEndOffset(offset + 1))
        self._show()

    def _show(self) -> None:
        state = self.state
        if state is None:
            return
        self._high_watermark = state.high_watermark
        self._host.shows(self.broker_id, self.log.entries, state.high_watermark)
        while self._waiting and self._waiting[0][0] < state.high_watermark:
            self._host.acknowledge(self.broker_id, *self._waiting.pop(0))

    def answer(self, fetch: Fetch) -> SimulatedFetch:
        state = self.state
        if not self.running or state is None or fetch.leader_epoch != state.leader_epoch:
            return SimulatedFetch(None)
        if fetch.replica not in state.replicas:
            return SimulatedFetch(None)
        parted = divergence(self.log, fetch.last_epoch, fetch.offset)
        if parted is not None or fetch.offset > self.log.log_end_offset:
            return SimulatedFetch([], 0, parted or Divergence(-1, -1))
        state.follower_fetched(
            BrokerId(fetch.replica),
            LogEndOffset(fetch.offset),
            LeaderEpoch(fetch.leader_epoch),
            now_ms=self._host.now_ms,
            broker_epoch=fetch.broker_epoch,
        )
        self._show()
        self._expand(BrokerId(fetch.replica))
        entries = self.log.entries[fetch.offset : fetch.offset + _FETCH_ENTRIES]
        return SimulatedFetch(list(entries), state.high_watermark)

    def _expand(self, follower: BrokerId) -> None:
        state = self.state
        if state is not None and follower not in state.isr and follower in state.replicas:
            wanted = state.expanded(follower)
            if follower in wanted:
                self._propose(wanted)

    def _tick(self) -> None:
        self._after(_TICK_MS, self._tick)
        state = self.state
        if state is not None:
            late = state.late(self._host.now_ms, _LAG_MS)
            if late:
                self._propose(state.shrunk(late))
        elif self._host.now_ms - self._asked_ms > _FETCH_AGAIN_MS:
            self._fetch()

    def _propose(self, isr: frozenset[BrokerId]) -> None:
        """Count a proposal at once, and commit it some time later, as through a thread."""
        state = self.state
        if state is None or self._committing:
            return
        self._committing = True
        state.propose(isr)
        proposal = IsrProposal(
            partition=PARTITION,
            topic_id=TOPIC_ID,
            leader=self.broker_id,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            isr={each: state.broker_epoch(each) if each not in state.isr else -1 for each in isr},
        )
        self._say(f"proposes {sorted(isr)}")
        self._after(self._host.random.randint(1, 30), lambda: self._commit(state, proposal))

    def _commit(self, state: PartitionState, proposal: IsrProposal) -> None:
        controller = self._controller
        if controller is None or self.state is not state:
            return
        try:
            plan = controller.alter_isr([proposal])
        except (StorageError, VersionConflict):
            # It may have been done: it counts until the state has been read again.
            self._after(_RETRY_MS, self._settle_proposal)
            self._host.uncertain(self)
            return
        if not isinstance(plan.outcomes[PARTITION], PartitionRecord):
            self._after(1, self._settle_proposal)
            return
        self._follow()

    def _settle_proposal(self) -> None:
        controller = self._controller
        if controller is None:
            return
        try:
            controller.catch_up([node_path(TopicRecord.KIND, TOPIC)])
        except StorageError:
            self._after(_RETRY_MS, self._settle_proposal)
            return
        self._follow()
        if self.state is not None and self._committing:
            self.state.withdraw()
            self._committing = False

    # -- following

    def _fetch(self) -> None:
        partition = self.partition
        if partition is None or self.state is not None or not self._registered:
            return
        leader = self._host.brokers.get(partition.leader)
        if leader is None or leader is self:
            return
        self._fetch_number += 1
        self._asked_ms = self._host.now_ms
        number, life = self._fetch_number, self._life
        fetch = Fetch(
            replica=self.broker_id,
            broker_epoch=self._epoch,
            leader_epoch=partition.leader_epoch,
            offset=self.log.log_end_offset,
            last_epoch=self.log.last_epoch,
        )

        def take(fetched: SimulatedFetch) -> None:
            if self.running and (life, number) == (self._life, self._fetch_number):
                self._take(fetch, fetched)

        def ask() -> None:
            fetched = leader.answer(fetch)
            self._host.send(leader.broker_id, self.broker_id, lambda: take(fetched))

        self._host.send(self.broker_id, leader.broker_id, ask)

    def _take(self, fetch: Fetch, fetched: SimulatedFetch) -> None:
        partition = self.partition
        if partition is None or self.state is not None or fetched.entries is None:
            return
        if partition.leader_epoch != fetch.leader_epoch:
            return
        if fetched.diverging is not None:
            self._cut(fetched.diverging)
        else:
            self.log.append(fetched.entries)
            self._high_watermark = max(
                self._high_watermark, min(fetched.high_watermark, self.log.log_end_offset)
            )
            self._host.shows(self.broker_id, self.log.entries, self._high_watermark)
        # A real leader with nothing to send would keep the fetch waiting.
        if fetched.entries or fetched.diverging is not None:
            self._fetch()
        else:
            self._after(_POLL_MS, self._fetch)

    def _cut(self, divergence: Divergence) -> None:
        at = cut_offset(self.log, divergence)
        self._say(f"cuts to {at} of {self.log.log_end_offset} because of {divergence}")
        self.log.truncate_to(0 if at is None else at)
        self._high_watermark = min(self._high_watermark, self.log.log_end_offset)
