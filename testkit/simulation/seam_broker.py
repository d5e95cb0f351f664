"""One broker of the seam simulator: the real parts of a broker on a virtual event loop.

Real are the membership with its controller, the applier of the cluster's state, the manager of
in-sync replicas, the roles, the log directory with its logs on a disk in memory, led partitions,
followers, and the coordinators of groups and transactions. Simulated are ZooKeeper
(`SessionStore`), connections (`VirtualTransactionClient`, `ReplicaTraffic`) and threads
(`VirtualLoop`, `InlineFetcher`).
"""

import asyncio
import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Protocol, TypeVar

from headrace.broker.config.internal_topic import CONSUMER_OFFSETS, TRANSACTION_STATE
from headrace.broker.config.settings import BrokerSettings
from headrace.broker.coordinator.group_coordinator import GroupCoordinator
from headrace.broker.coordinator.producer_id_source import ProducerIdSource
from headrace.broker.coordinator.transaction_coordinator import TransactionCoordinator
from headrace.broker.guard import Guard
from headrace.broker.membership.cluster_member import ClusterMember
from headrace.broker.membership.controller_client import ControllerClient
from headrace.broker.membership.finalized_features import FinalizedFeatures
from headrace.broker.membership.metadata_applier import MetadataApplier
from headrace.broker.metric import BrokerMetrics
from headrace.broker.network.callback_future import future_of
from headrace.broker.quota import Quotas
from headrace.broker.replica.log_storage import LogStorage
from headrace.broker.replica.partition import Partition
from headrace.broker.replica.replica_roles import ReplicaRoles
from headrace.broker.replica.topic_table import TopicTable
from headrace.cluster.broker import BrokerRecord
from headrace.cluster.controller import Controller
from headrace.log.log_directory import LogDirectory
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import BrokerIdTaken, DiskFull, StorageError, VersionConflict
from headrace.model.ids import BrokerId, TopicPartition
from headrace.model.topic_config import LogConfig
from testkit.fault.crash_disk import CrashDisk
from testkit.fault.disk_fault import Call, Fault
from testkit.simulation.inline_executor import InlineExecutor
from testkit.simulation.inline_fetcher import InlineFetcher
from testkit.simulation.inline_moves import InlineMoves
from testkit.simulation.replica_traffic import ReplicaTraffic
from testkit.simulation.session_store import SessionStore
from testkit.simulation.virtual_clock import VirtualClock
from testkit.simulation.virtual_loop import VirtualLoop
from testkit.simulation.virtual_transaction_client import VirtualTransactionClient

TOPIC = "orders"

Result = TypeVar("Result")

_RETRY_MS = 250
_MISSING_LOGS_MS = 200
_SESSION_MS = 600
_THREAD_MS = 20
_MOVE_MS = 40
_SEGMENT_BYTES = 600

_SETTINGS = {
    "zookeeper.connect": "simulated:2181",
    "replica.lag.time.max.ms": "200",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": "600",
}


class SeamHost(Protocol):
    """What a broker needs of the simulator."""

    now_ms: int
    calm: bool
    random: Random
    brokers: "dict[int, SeamBroker]"

    def after(self, wait_ms: int, event: Callable[[], None]) -> None: ...
    def say(self, who: object, what: str) -> None: ...
    def send(self, sender: int, receiver: int, deliver: Callable[[], None]) -> None: ...
    def connect(self, broker_id: int) -> SessionStore: ...
    def registration(self, broker_id: int) -> BrokerRecord: ...
    def begins_to_lead(self, broker: "SeamBroker", partition: Partition) -> None: ...
    def shows(self, broker: "SeamBroker", name: TopicPartition, log: PartitionLog) -> None: ...


class SeamBroker:
    """Leads and follows what the cluster's state says, and is the controller if it can.

    It is the host of its own parts, as `headrace.broker.broker.Broker` is: the attributes without
    a comment are that.

    Attributes:
        disk: survives a crash of the process, with everything that was written.
        serves: whether it runs, is registered, and answers.
    """

    def __init__(
        self, host: SeamHost, broker_id: int, log_dirs: Sequence[Path] = (Path("/data"),)
    ) -> None:
        self.broker_id = self.node_id = BrokerId(broker_id)
        self.disk = CrashDisk()
        self.running = False
        self.serves = False
        self.store: SessionStore | None = None
        self.clock = VirtualClock(host)
        self.traffic = ReplicaTraffic(host, self)
        self._host = host
        self._log_dirs = log_dirs
        self._life = 0
        self._full: Fault | None = None
        self._led: dict[TopicPartition, Partition] = {}
        self._shown: dict[TopicPartition, int] = {}
        self._version = -1
        self._loops: list[VirtualLoop] = []

    def say(self, what: str) -> None:
        self._host.say(f"broker {self.broker_id}", what)

    def after(self, wait_ms: int, event: Callable[[], None]) -> None:
        """Let an event happen later, unless the broker crashes before."""
        life = self._life

        def unless_crashed() -> None:
            if self.running and self._life == life:
                event()

        self._host.after(wait_ms, unless_crashed)

    # -- what this broker has

    def led(self, name: TopicPartition) -> Partition | None:
        """Return a partition that this broker leads."""
        return self.topics.find(name.topic, None, name.partition) if self.serves else None

    @property
    def leads(self) -> bool:
        return self.serves and any(name.topic == TOPIC for name in self._led)

    def log_of(self, name: TopicPartition) -> PartitionLog | None:
        """Return the log of a partition that this broker leads or follows."""
        if not self.serves:
            return None
        partition = self.led(name)
        if partition is not None:
            return partition.log
        follower = self.topics.follower(name.topic, None, name.partition)
        return None if follower is None else follower.log

    @property
    def state(self) -> Controller:
        """The cluster's state, as this broker knows it."""
        return self._state

    @property
    def broker_epoch(self) -> int:
        known = self.members.get(self.broker_id)
        return -1 if known is None else known.epoch

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        return await self.loop.run_in_executor(None, work)

    def when_synced(self, partition: Partition, end: int) -> "asyncio.Future[object]":
        return self.when_safe(partition, end)

    def when_safe(self, partition: Partition, end: int) -> "asyncio.Future[object]":
        return future_of(partition.when_committed(end), self.loop)

    async def safe(self, partition: Partition, end: int) -> None:
        """Return when the replicas in sync have everything below `end`."""
        if partition.waits_before_answer:
            await self.when_safe(partition, end)

    # -- coming and going

    def start(self) -> None:
        if self.running:
            return
        self.running = True
        self._life += 1
        self.say("started")
        self.loop = VirtualLoop(self._host, self._observe, self._thread_ms)
        self._loops.append(self.loop)
        self.loop.run(lambda: self.loop.create_task(self._start()))

    def _thread_ms(self) -> int:
        """Let a thread take its time, now and then."""
        random = self._host.random
        return random.randint(1, _THREAD_MS) if not self._host.calm and random.random() < 0.2 else 0

    async def _start(self) -> None:
        """Begin as `headrace.broker.server.Server` does."""
        try:
            self.store = self._host.connect(self.broker_id)
            self._construct(Controller(self.store))
            self._open_logs()
            await self.membership.join(self._host.registration(self.broker_id))
            again = self.membership.with_retries
            await again(lambda: self.controller.administer(Controller.finalize_default_features))
            await self.controller.apply_features()
            await again(self.producer_ids.claim)
            await self.controller.restore_topics()
        except (StorageError, DiskFull, VersionConflict, BrokerIdTaken) as error:
            self.say(f"did not start: {error}")
            self.after(1, self._start_again)
            return
        self.serves = True
        self.say(f"joined with broker epoch {self.broker_epoch}")
        self.after(_MISSING_LOGS_MS, self._make_missing_logs)
        if len(self._log_dirs) > 1:
            self._move_logs()
        self.traffic.start()

    def _start_again(self) -> None:
        store = self.store
        self.crash()
        if store is not None:
            self._host.after(_SESSION_MS, store.close)
        self._host.after(_RETRY_MS, self.start)

    def _construct(self, state: Controller) -> None:
        self._state = state
        store = self.store
        assert store is not None
        threads = InlineExecutor()
        log_dirs = ",".join(str(each) for each in self._log_dirs)
        self.settings = BrokerSettings(
            {"node.id": str(self.broker_id), "log.dirs": log_dirs, **_SETTINGS}
        )
        self.members: dict[BrokerId, BrokerRecord] = {}
        self.topics = TopicTable(self.settings, self.members)
        self.quotas = Quotas(self.clock)
        self.guard = Guard(None, self.topics)
        self.features = FinalizedFeatures(self.clock)
        self.group_configs: dict[str, Mapping[str, int]] = {}
        self.authentication: Any = _Nothing()
        self.client_metrics: Any = _Nothing()
        self.mirror_links: Any = _Nothing()
        self.batch_opener: Any = _Nothing()
        brokers = self._host.brokers
        self.transaction_client: Any = VirtualTransactionClient(
            self._host, self, lambda each: brokers[each]
        )
        compaction = _NoCompaction()
        self.moves = InlineMoves(compaction, self._host.random)
        self.storage = LogStorage(self.broker_id, compaction, self.moves)
        self.fetcher = InlineFetcher(self.settings, self.clock)
        self.fetchers: Any = self.fetcher
        self.producer_ids = ProducerIdSource(self.loop, store, self.broker_id, threads)
        self.groups = GroupCoordinator(self, self.settings.groups(self.group_configs))
        self.transactions = TransactionCoordinator(
            self, self.settings.transactions(), self.groups.transaction_ended
        )
        self.roles = ReplicaRoles(
            self.broker_id,
            self.clock,
            self.topics,
            self.storage,
            self.fetchers,
            {CONSUMER_OFFSETS: self.groups, TRANSACTION_STATE: self.transactions},
            threads,
            BrokerMetrics(),
        )
        self.applier = MetadataApplier(self, state)
        self.controller = ControllerClient(
            state,
            threads,
            self.applier,
            settings=self.settings,
            topics=self.topics,
            members=self.members,
        )
        self.membership = ClusterMember(self, store)
        self.applier.apply_all()

    def _open_logs(self) -> None:
        state = self._state

        def own_configs(topic: str) -> dict[str, str]:
            record = state.state.topics.get(topic)
            return {} if record is None else dict(record.configs)

        config_of = self.settings.log_configs(own_configs)

        def with_small_segments(topic: str) -> LogConfig:
            # Smaller than a topic may ask for: a history has some hundred records.
            return replace(config_of(topic), segment_bytes=_SEGMENT_BYTES)

        for path in self._log_dirs:
            self.storage.add(
                LogDirectory.open(
                    path,
                    node_id=self.broker_id,
                    cluster_id="simulated",
                    configs=with_small_segments,
                    filesystem=self.disk,
                    clock=self.clock,
                    recovery_threads=1,
                    background=False,
                )
            )

    def _move_logs(self) -> None:
        """Go on with moves between the log directories, as their threads do."""
        self.after(self._host.random.randint(1, _MOVE_MS), self._move_logs)
        self.moves.step()

    def _make_missing_logs(self) -> None:
        self.after(_MISSING_LOGS_MS, self._make_missing_logs)
        self.loop.run(self.applier.topics.retry)

    def crash(self) -> None:
        self.say("crashed")
        self.running = self.serves = False
        self.store = None
        self._led.clear()
        self._shown.clear()
        self._version = -1
        self.traffic.stop()
        self.loop.close()

    def close(self) -> None:
        """Let go of everything: the history is over."""
        for loop in self._loops:
            loop.discard()

    # -- ZooKeeper

    def heard(self, path: str) -> None:
        if self.running and self.store is not None and not self.store.expired:
            self.store.heard(path)

    def back(self) -> None:
        """Go on after a cut from ZooKeeper; the session may be over."""
        if self.running and self.store is not None:
            self.store.reconnected()

    def administer(self, command: Callable[[Controller], object]) -> None:
        """Run an administrator's command here."""

        async def run() -> None:
            try:
                await self.controller.administer(command)
            except (StorageError, VersionConflict) as error:
                self.say(f"a command failed: {error}")

        self.loop.run(lambda: self.loop.create_task(run()))

    # -- what can be seen from outside

    def _observe(self) -> None:
        """Report partitions that this broker has begun to lead, and what it shows of them."""
        if not self.serves:
            return
        if self._version != self.topics.version:
            self._version = self.topics.version
            before = self._led
            self._led = {each.name: each for each in self.topics.partitions()}
            for name, partition in self._led.items():
                if before.get(name) is not partition:
                    self._shown.pop(name, None)
                    self._host.begins_to_lead(self, partition)
            self.traffic.roles_changed()
        for name, partition in self._led.items():
            high_watermark = partition.log.high_watermark
            if self._shown.get(name) != high_watermark:
                self._shown[name] = high_watermark
                self._host.shows(self, name, partition.log)

    # -- the disk

    def fill_disk(self, lasts_ms: int) -> None:
        """Let appends and new logs fail for a while: there is no room.

        Not checkpoints and snapshots: a truncation that is half done without room takes the
        directory offline (docs/operations.md), and a directory that comes back is not simulated.
        """
        if self._full is not None:
            return
        self.say(f"has a full disk for {lasts_ms} ms")

        def needs_room(call: Call) -> bool:
            appends = call.name == "pwritev" and call.path.suffix == ".log"
            return appends or call.name == "make_directory"

        self._full = self.disk.inject(Fault(errno.ENOSPC, needs_room, times=None))
        self._host.after(lasts_ms, self.make_room)

    def make_room(self) -> None:
        if self._full is not None:
            self.say("has room again")
            self.disk.faults.remove(self._full)
            self._full = None


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
