"""One broker of the seam simulator: the real parts of a broker, without sockets and threads.

Real are the controller, the applier of its changes, the roles, the log directory with its logs on a
disk in memory, the led partition, the follower and the code that applies a leader's response.
Simulated are connections (`SeamHost.send`), the proposals of in-sync replicas and the leader's end
of a fetch, which follow `isr_manager` and `handlers.fetch`.
"""

import asyncio
import errno
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Protocol, TypeVar

from headrace.broker.config.settings import BrokerSettings
from headrace.broker.error_mapping import code_of
from headrace.broker.guard import Guard
from headrace.broker.membership.finalized_features import FinalizedFeatures
from headrace.broker.membership.metadata_applier import MetadataApplier
from headrace.broker.metric import BrokerMetrics
from headrace.broker.quota import Quotas
from headrace.broker.replica.log_storage import LogStorage
from headrace.broker.replica.partition import Partition
from headrace.broker.replica.replica_roles import ReplicaRoles
from headrace.broker.replica.topic_table import TopicTable
from headrace.cluster.broker import BrokerRecord
from headrace.cluster.controller import Controller
from headrace.cluster.entity import KINDS
from headrace.cluster.partition_command import IsrProposal
from headrace.cluster.store import node_path
from headrace.cluster.term import CONTROLLER_PATH
from headrace.cluster.topic import PartitionRecord, TopicRecord
from headrace.log.log_directory import LogDirectory
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import (
    BrokerIdTaken,
    DiskFull,
    HeadraceError,
    StorageError,
    VersionConflict,
)
from headrace.model.ids import BrokerId, TopicPartition
from headrace.model.topic_config import LogConfig
from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_request import FetchPartition
from headrace.wire.fetch_response import DivergingEpoch, FetchPartitionResult
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Call, Fault
from testkit.sample.batch import SAMPLE_TIME_MS
from testkit.simulation.inline_fetcher import InlineFetcher
from testkit.simulation.memory_store import MemoryStore

TOPIC = "orders"
PARTITION = TopicPartition(TOPIC, 0)

Result = TypeVar("Result")

_TICK_MS = 40
_FETCH_AGAIN_MS = 120
_LAG_MS = 200
_RETRY_MS = 60
_POLL_MS = 25
_READ_BYTES = 1 << 20
_SEGMENT_BYTES = 600


class SeamHost(Protocol):
    """What a broker needs of the simulator."""

    now_ms: int
    random: Random
    brokers: "dict[int, SeamBroker]"

    def after(self, wait_ms: int, event: Callable[[], None]) -> None: ...
    def say(self, who: object, what: str) -> None: ...
    def send(self, sender: int, receiver: int, deliver: Callable[[], None]) -> None: ...
    def connect(self, broker_id: int) -> MemoryStore: ...
    def uncertain(self, broker: "SeamBroker") -> None: ...
    def registration(self, broker_id: int) -> BrokerRecord: ...
    def begins_to_lead(self, broker: "SeamBroker", partition: Partition) -> None: ...
    def shows(self, broker: "SeamBroker", log: PartitionLog) -> None: ...


class SeamBroker:
    """Leads or follows the one partition there is, if there is one, and may be the controller.

    It is the `MetadataTarget` of its own applier: the attributes without a comment are that.

    Attributes:
        disk: survives a crash of the process, with everything that was written.
    """

    def __init__(self, host: SeamHost, broker_id: int) -> None:
        self.broker_id = BrokerId(broker_id)
        self.disk = CrashDisk()
        self.running = False
        self.store: MemoryStore | None = None
        self.clock = VirtualClock(host)
        self.controller: Controller | None = None
        self._host = host
        self._life = 0
        self._committing = False
        self._unheard: set[str] = set()
        self._full: Fault | None = None
        self._led: Partition | None = None
        self._registered = False
        self._loop = asyncio.new_event_loop()
        self._loop.close()

    def _say(self, what: str) -> None:
        self._host.say(f"broker {self.broker_id}", what)

    def _after(self, wait_ms: int, event: Callable[[], None]) -> None:
        """Let an event happen later, unless the broker crashes before."""
        life = self._life

        def unless_crashed() -> None:
            if self.running and self._life == life:
                event()

        self._host.after(wait_ms, unless_crashed)

    # -- what this broker has

    @property
    def partition(self) -> Partition | None:
        """What this broker leads."""
        topic = self.topics.by_name(TOPIC) if self.running and self._registered else None
        return topic.partitions[0] if topic is not None and topic.partitions else None

    @property
    def serves(self) -> bool:
        """Whether this broker runs, is registered, and answers."""
        return self.running and self._registered

    @property
    def leads(self) -> bool:
        return self.partition is not None

    @property
    def log(self) -> PartitionLog | None:
        """The log of the partition that this broker leads or follows."""
        if self.partition is not None:
            return self.partition.log
        if not self.running or not self._registered:
            return None
        follower = self.topics.follower(TOPIC, None, 0)
        return None if follower is None else follower.log

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        return work()

    # -- coming and going

    def start(self) -> None:
        if self.running:
            return
        self.running = True
        self._life += 1
        self._say("started")
        self._epoch = -1
        self._registered = False
        self._fetch_number = 0
        self._asked_ms = self._host.now_ms
        self._after(1, self._open)

    def _open(self) -> None:
        """Connect to ZooKeeper, read the state, open the logs; retry until all of it works."""
        try:
            self.store = self._host.connect(self.broker_id)
            self._open_logs(Controller(self.store))
        except (StorageError, DiskFull) as error:
            self._say(f"did not start: {error}")
            self.controller = None
            self.close()
            self._after(_RETRY_MS, self._open)
            return
        self._register()
        self._after(_TICK_MS, self._tick)

    def _open_logs(self, controller: Controller) -> None:
        self.controller = controller
        self._loop = asyncio.new_event_loop()
        self.settings = BrokerSettings({"node.id": str(self.broker_id), "log.dirs": "/data"})
        self.members: dict[BrokerId, BrokerRecord] = {}
        self.topics = TopicTable(self.settings, self.members)
        self.quotas = Quotas(self.clock)
        self.guard = Guard(None, self.topics)
        self.features = FinalizedFeatures(self.clock)
        self.group_configs: dict[str, Mapping[str, int]] = {}
        self.authentication: Any = _Nothing()
        self.transaction_client: Any = _Nothing()
        self.client_metrics: Any = _Nothing()
        self.storage = LogStorage(self.broker_id, _NoCompaction())
        self.threads = InlineExecutor()
        self.fetcher = InlineFetcher(self.settings, self.clock)
        self.fetchers: Any = self.fetcher
        self.roles = ReplicaRoles(
            self.broker_id,
            self.clock,
            self.topics,
            self.storage,
            self.fetchers,
            {},
            self.threads,
            BrokerMetrics(),
        )
        self._applier = MetadataApplier(self, controller)
        self._applier.apply_all()

        def own_configs(topic: str) -> dict[str, str]:
            record = controller.state.topics.get(topic)
            return {} if record is None else dict(record.configs)

        config_of = self.settings.log_configs(own_configs)

        def with_small_segments(topic: str) -> LogConfig:
            # Smaller than a topic may ask for: a history has some hundred records.
            return replace(config_of(topic), segment_bytes=_SEGMENT_BYTES)

        self.storage.add(
            LogDirectory.open(
                Path("/data"),
                node_id=self.broker_id,
                cluster_id="simulated",
                configs=with_small_segments,
                filesystem=self.disk,
                clock=self.clock,
                recovery_threads=1,
                background=False,
            )
        )
        self._applier.apply_members()
        self._run(self._applier.prepare_logs())

    def crash(self) -> None:
        self._say("crashed")
        self.running = False
        self.store = self.controller = None
        self._committing = False
        self._registered = False
        self._led = None
        self._unheard.clear()
        self.close()

    def close(self) -> None:
        """End what the broker was about to do in threads."""
        if self._loop.is_closed():
            return
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        if tasks:
            self._loop.run_until_complete(asyncio.wait(tasks))
        self._loop.close()

    def back(self) -> None:
        """Go on after a cut from ZooKeeper; the session may be over."""
        if not self.running or self.store is None or self.controller is None:
            return
        if self.store.expired:
            self._say("comes back with a new session")
            self.store.expired = False
            self._register()
        else:
            self._look_again()

    def _register(self) -> None:
        """Register again if need be, and serve what there is; retry until it works."""
        controller, store = self.controller, self.store
        if controller is None or store is None:
            return
        try:
            controller.reload()
            known = controller.state.brokers.get(self.broker_id)
            if known is None or known.epoch != self._epoch:
                self._epoch = controller.join(self._host.registration(self.broker_id)).epoch
                self._say(f"joined with broker epoch {self._epoch}")
            if controller.claim_term(self.broker_id):
                controller.settle()
        except (StorageError, VersionConflict, BrokerIdTaken):
            self._after(_RETRY_MS, self._again)
            self._apply()
            return
        self._apply()
        if not self._registered:
            self._registered = True
            self._run(self._applier.restore_topics())
            self._observe()
        self._look_again()

    def _again(self) -> None:
        if self.store is not None and self.store.expired:
            self.store.expired = False
        self._register()

    # -- what the cluster's state says

    def heard(self, path: str) -> None:
        watched = path == CONTROLLER_PATH or path.split("/")[1] in KINDS
        if watched and self.running and self.controller is not None and self._registered:
            self._unheard.add(path)
            self._catch_up()

    def _look_again(self) -> None:
        if self.controller is not None and self._registered:
            with self._failing():
                self.controller.reload()
            self._unheard |= {CONTROLLER_PATH}
            self._catch_up()

    def _catch_up(self) -> None:
        controller = self.controller
        if controller is None or not self._registered:
            return
        with self._failing():
            if CONTROLLER_PATH in self._unheard:
                controller.claim_term(self.broker_id)
            controller.catch_up(self._unheard - {CONTROLLER_PATH})
            self._unheard.clear()
            if controller.in_term:
                controller.settle()
        self._apply()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Read everything again, later, when ZooKeeper does not answer or another was faster."""
        try:
            yield
        except (StorageError, VersionConflict):
            self._after(_RETRY_MS, self._look_again)

    def administer(self, command: Callable[[Controller], object]) -> None:
        """Run an administrator's command here, and apply what it changed."""
        if self.controller is None or not self._registered:
            return
        try:
            command(self.controller)
        except (StorageError, VersionConflict) as error:
            self._say(f"a command failed: {error}")
        self._apply()

    def _apply(self) -> None:
        """Apply what has changed; what the broker leaves to threads may come some time later."""
        controller = self.controller
        if controller is None:
            return

        async def apply() -> None:
            await self._applier.apply(controller.take_changes())
            await self._applier_settled(self._host.random.choice([0, 0, 20]))

        self._run(apply())
        self._observe()

    async def _applier_settled(self, wait_ms: int) -> None:
        if wait_ms:
            self._after(self._host.random.randint(1, wait_ms), self._finish_applying)
        else:
            await self._applier.topics.settle()

    async def _retry(self) -> None:
        self._applier.topics.retry()
        await self._applier.topics.settle()

    def _finish_applying(self) -> None:
        self._run(self._applier.topics.settle())
        self._observe()

    def _run(self, work: Coroutine[Any, Any, object]) -> None:
        self._loop.run_until_complete(work)

    def _observe(self) -> None:
        """Report a partition that this broker has begun to lead, and fetch what it follows."""
        partition = self.partition
        if partition is not self._led:
            self._led = partition
            self._committing = False
            if partition is not None:
                self._host.begins_to_lead(self, partition)
        if partition is not None:
            if partition.state.proposed is None:
                self._committing = False
            self._host.shows(self, partition.log)
        else:
            self._fetch()

    # -- leading

    def answer(
        self, topic_id: Any, requested: FetchPartition, replica: BrokerId, broker_epoch: int
    ) -> FetchPartitionResult[memoryview] | None:
        """Answer a follower's fetch as `handlers.fetch` does; None when this broker is down."""
        if not self.running or self.controller is None or not self._registered:
            return None
        partition = self.topics.find(None, topic_id, 0)
        if partition is None:
            return FetchPartitionResult(0, ErrorCode.not_leader_or_follower)
        code = partition.check_epoch(requested.current_leader_epoch)
        if code or replica not in partition.state.replicas:
            return FetchPartitionResult(0, code or ErrorCode.not_leader_or_follower)
        log = partition.log
        offsets = (log.high_watermark, log.last_stable_offset, log.log_start_offset)
        parted = partition.divergence(requested.last_fetched_epoch, requested.fetch_offset)
        if parted is not None:
            return FetchPartitionResult(0, 0, *offsets, diverging_epoch=DivergingEpoch(*parted))
        try:
            piece = log.read(
                requested.fetch_offset,
                self._host.random.choice([1, 150, _READ_BYTES]),
                max_offset=log.log_end_offset,
                at_least_one=True,
            ).read()
        except HeadraceError as error:
            return FetchPartitionResult(0, code_of(error), *offsets)
        wanted = partition.follower_fetched(
            replica,
            requested.fetch_offset,
            now_ms=self.clock.monotonic_ms(),
            broker_epoch=broker_epoch,
        )
        self._host.shows(self, log)
        if wanted is not None:
            self._propose(partition, wanted)
        offsets = (log.high_watermark, log.last_stable_offset, log.log_start_offset)
        return FetchPartitionResult(0, 0, *offsets, len(piece), memoryview(piece))

    def _tick(self) -> None:
        self._after(_TICK_MS, self._tick)
        self._run(self._retry())
        self._observe()
        partition = self.partition
        if partition is not None:
            late = partition.state.late(self.clock.monotonic_ms(), _LAG_MS)
            if late:
                self._propose(partition, partition.state.shrunk(late))
        elif self._host.now_ms - self._asked_ms > _FETCH_AGAIN_MS:
            self._fetch()

    def _propose(self, partition: Partition, isr: frozenset[BrokerId]) -> None:
        """Count a proposal at once, and commit it some time later, as through a thread."""
        topic = self.topics.by_name(TOPIC)
        if self._committing or topic is None:
            return
        self._committing = True
        state = partition.state
        state.propose(isr)
        proposal = IsrProposal(
            partition=PARTITION,
            topic_id=topic.topic_id,
            leader=self.broker_id,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            isr={each: state.broker_epoch(each) if each not in state.isr else -1 for each in isr},
        )
        self._say(f"proposes {sorted(isr)}")
        wait_ms = self._host.random.randint(1, 30)
        self._after(wait_ms, lambda: self._commit(partition, proposal))

    def _commit(self, partition: Partition, proposal: IsrProposal) -> None:
        controller = self.controller
        if controller is None or self.partition is not partition:
            return
        try:
            plan = controller.alter_isr([proposal])
        except (StorageError, VersionConflict):
            # It may have been done: it counts until the state has been read again.
            self._after(_RETRY_MS, lambda: self._settle_proposal(partition))
            self._host.uncertain(self)
            return
        if isinstance(plan.outcomes[PARTITION], PartitionRecord):
            self._apply()
        else:
            self._after(1, lambda: self._settle_proposal(partition))

    def _settle_proposal(self, partition: Partition) -> None:
        controller = self.controller
        if controller is None or self.partition is not partition:
            return
        try:
            controller.catch_up([node_path(TopicRecord.KIND, TOPIC)])
        except StorageError:
            self._after(_RETRY_MS, lambda: self._settle_proposal(partition))
            return
        self._apply()
        if self.partition is partition and self._committing:
            partition.withdraw()
            self._committing = False

    # -- following

    def _fetch(self) -> None:
        follower = self.topics.follower(TOPIC, None, 0)
        if follower is None or not self._registered:
            return
        leader = self._host.brokers.get(follower.leader)
        if leader is None or leader is self:
            return
        self._fetch_number += 1
        self._asked_ms = self._host.now_ms
        number, life, epoch = self._fetch_number, self._life, self._epoch
        requested = self.fetcher.request(follower)

        def take(result: FetchPartitionResult[memoryview] | None) -> None:
            if self.running and (life, number) == (self._life, self._fetch_number):
                self._take(follower.topic_id, result)

        def ask() -> None:
            result = leader.answer(follower.topic_id, requested, self.broker_id, epoch)
            self._host.send(leader.broker_id, self.broker_id, lambda: take(result))

        self._host.send(self.broker_id, leader.broker_id, ask)

    def _take(self, topic_id: Any, result: FetchPartitionResult[memoryview] | None) -> None:
        if result is None:
            return
        self.fetcher.copy(topic_id, result)
        follower = self.topics.follower(TOPIC, None, 0)
        if follower is not None:
            self._host.shows(self, follower.log)
        # A real leader with nothing to send would keep the fetch waiting.
        if result.records_bytes or result.diverging_epoch is not None:
            self._fetch()
        else:
            self._after(_POLL_MS, self._fetch)

    # -- the disk

    def fill_disk(self, lasts_ms: int) -> None:
        """Let appends and new logs fail for a while: there is no room.

        Not checkpoints and snapshots: a truncation that is half done without room takes the
        directory offline (docs/operations.md), and a directory that comes back is not simulated.
        """
        if self._full is not None:
            return
        self._say(f"has a full disk for {lasts_ms} ms")

        def needs_room(call: Call) -> bool:
            appends = call.name == "pwritev" and call.path.suffix == ".log"
            return appends or call.name == "make_directory"

        self._full = self.disk.inject(Fault(errno.ENOSPC, needs_room, times=None))
        self._host.after(lasts_ms, self.make_room)

    def make_room(self) -> None:
        if self._full is not None:
            self._say("has room again")
            self.disk.faults.remove(self._full)
            self._full = None


class VirtualClock:
    """The simulator's time, for one broker."""

    def __init__(self, host: SeamHost) -> None:
        self._host = host

    def wall_ms(self) -> int:
        return SAMPLE_TIME_MS + self._host.now_ms

    def monotonic_ms(self) -> int:
        return self._host.now_ms


class InlineExecutor(Executor):
    """Runs at once what a thread would run later."""

    def submit(self, work: Any, /, *arguments: Any, **options: Any) -> "Future[Any]":
        done: Future[Any] = Future()
        try:
            done.set_result(work(*arguments, **options))
        except Exception as error:  # noqa: BLE001 - as an executor does
            done.set_exception(error)
        return done


class _NoCompaction:
    """No compaction in the background: the simulator compacts when its seed says so."""

    def add(self, directory: LogDirectory) -> None:
        """Do nothing."""

    @contextmanager
    def deleting(self, *partitions: TopicPartition) -> Iterator[None]:
        yield

    @contextmanager
    def moving(
        self, partition: TopicPartition, source: LogDirectory, target: LogDirectory
    ) -> Iterator[None]:
        yield


class _Nothing:
    """A part of a broker that no history needs: every call does nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_, **__: None
