"""The broker itself: what every handler reaches, and nothing that listens.

`server` starts and stops it and gives it sockets; handlers and coordinators work on it. It lives
on the event loop. What may wait for the disk goes through `in_thread`, and every change of the
cluster's state through `administer`, which runs one at a time in the controller's own thread.
"""

import asyncio
import importlib
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar, cast
from uuid import UUID

import structlog

from headrace.broker.auth.authentication import Authentication
from headrace.broker.config.listener import Listener
from headrace.broker.config.settings import BrokerSettings
from headrace.broker.coordinator.group import GroupCoordinator
from headrace.broker.coordinator.transaction import TransactionCoordinator
from headrace.broker.guard import Guard
from headrace.broker.metric import BrokerMetrics
from headrace.broker.network.callback_future import future_of
from headrace.broker.peer.connector import PeerWay
from headrace.broker.peer.transaction_client import TransactionPeers
from headrace.broker.quota import Quotas
from headrace.broker.replica.fetch_session import FetchSessions
from headrace.broker.replica.fetcher import ReplicaFetchers
from headrace.broker.replica.follower import Follower
from headrace.broker.replica.log_storage import LogStorage
from headrace.broker.replica.partition import Partition
from headrace.broker.replica.throttle import ReplicationThrottle
from headrace.broker.replica.topic_table import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    Topic,
    Topics,
)
from headrace.cluster.acl import Acl
from headrace.cluster.broker import BrokerConfig, BrokerRecord
from headrace.cluster.controller import Controller
from headrace.cluster.credential import ScramCredential
from headrace.cluster.feature import Feature
from headrace.cluster.quota import ClientQuota
from headrace.cluster.rejection import Rejection
from headrace.cluster.state import Change, Put
from headrace.cluster.store import ClusterStore
from headrace.cluster.topic import NO_LEADER, PartitionRecord, TopicRecord
from headrace.cluster.topic_command import NewTopic, TopicDefaults, TopicPlan
from headrace.log.partition.group_commit import GroupCommit
from headrace.model.clock import Clock
from headrace.model.error import HeadraceError, StorageError
from headrace.model.ids import BrokerId, ProducerId, TopicPartition
from headrace.transactions.producer_ids import ProducerIds, claim_block
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.leader import LeaderHint

log = structlog.get_logger(__name__)

Result = TypeVar("Result")


class Broker:
    """One broker's state. Make it with `server.start_broker`."""

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
        store: ClusterStore,
        controller: Controller,
        cluster_id: str,
        authentication: Authentication,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.loop = loop
        self.cluster_id = cluster_id
        self.node_id = settings.node_id
        self.advertised: Mapping[str, Listener] = {}
        self.controller_id = settings.node_id
        # The brokers that are running, by id; the registration of this one has its epoch.
        self.members: dict[BrokerId, BrokerRecord] = {}
        self.topics = Topics()
        self.storage = LogStorage(settings.node_id)
        self.fetch_sessions = FetchSessions(settings.fetch_session_slots)
        self.fetch_max_bytes = settings.fetch_max_bytes
        self.quotas = Quotas(clock)
        self.authentication = authentication
        self.guard = Guard(settings.authorizer(), self.topics)
        self.features: Mapping[str, int] = {}
        self.features_epoch = 0
        self.settings_followers: list[Callable[[], None]] = []
        self.metrics = BrokerMetrics()
        self.way = PeerWay(settings, self.members.get)
        self.peers = TransactionPeers(self.way)
        self.groups = GroupCoordinator(self, settings.groups())
        self.transactions = TransactionCoordinator(
            self, settings.transactions(), self.groups.transaction_ended
        )
        self.group_commit = GroupCommit()
        self.threads = ThreadPoolExecutor(4, thread_name_prefix="broker")
        self._columns_loaded = False
        self.leader_throttle = ReplicationThrottle(
            clock, lambda: int(settings["leader.replication.throttled.rate"])
        )
        # Another broker's process is gone; a cluster's member puts itself in.
        self.peer_gone: Callable[[BrokerRecord], None] = lambda _: None
        self.fetchers = ReplicaFetchers(
            settings,
            self.way,
            self.members.get,
            lambda: self.broker_epoch,
            self._copied,
            lambda record: self.peer_gone(record),
            ReplicationThrottle(
                clock, lambda: int(settings["follower.replication.throttled.rate"])
            ),
        )
        # A leader found that others are in sync than it thought; a cluster's member puts itself in.
        self.propose_isr: Callable[[Partition, frozenset[BrokerId]], None] = lambda *_: None
        # Whether some partition is stranded: what this broker knows of leaders is old then.
        self.cut_off = False
        self.served_apis: frozenset[ApiKey] = frozenset()
        # Calls something right after the socket event that is being served (`network.poller`).
        self.call_after_event: Callable[[Callable[[], object]], object] = loop.call_soon
        self._store = store
        self._controller = controller
        self._controller_thread = ThreadPoolExecutor(1, thread_name_prefix="controller")
        self._administering = asyncio.Lock()
        self._commands: set[asyncio.Task[Any]] = set()
        self._producer_ids = ProducerIds()
        self._claiming: asyncio.Future[None] | None = None

    # -- looking

    def find(self, name: str | None, topic_id: UUID | None, index: int) -> Partition | None:
        """A partition this broker leads, by its topic's name or id; None if it does not."""
        return self.topics.find(name, topic_id, index)

    @property
    def broker_epoch(self) -> int:
        known = self.members.get(self.node_id)
        return -1 if known is None else known.epoch

    def follower_fetched(
        self,
        partition: Partition,
        replica_id: int,
        fetch_offset: int,
        replica_epoch: int,
        now_ms: int,
    ) -> None:
        """A fetch says how far a follower has come: to be counted once a request."""
        follower = BrokerId(replica_id)
        wanted = partition.follower_fetched(
            follower, fetch_offset, now_ms=now_ms, broker_epoch=replica_epoch
        )
        if wanted is None:
            return
        # One that is cut off from the cluster's store would be refused, fetch after fetch.
        member = self.members.get(follower)
        if member is not None and member.epoch == replica_epoch:
            self.propose_isr(partition, wanted)

    def exists(self, name: str, index: int) -> bool:
        """Whether there is such a partition, led by whomever."""
        topic = self.topics.by_name(name)
        return topic is not None and 0 <= index < len(topic.partitions)

    def leader_elsewhere(self, name: TopicPartition) -> BrokerId | None:
        """Which other broker leads a partition; None if this one does, or nobody."""
        topic = self.topics.by_name(name.topic)
        if topic is None or not 0 <= name.partition < len(topic.partitions):
            return None
        leader = topic.record.partitions[name.partition].leader
        return None if leader in (self.node_id, NO_LEADER) else leader

    def leader_hint(self, name: str | None, topic_id: UUID | None, index: int) -> LeaderHint | None:
        """Who leads a partition that this broker does not (KIP-951)."""
        topics = self.topics
        topic = topics.by_id(topic_id) if topic_id is not None else topics.by_name(name or "")
        if topic is None or not 0 <= index < len(topic.partitions):
            return None
        record = topic.record.partitions[index]
        if record.leader in (self.node_id, NO_LEADER):
            return None
        return LeaderHint(record.leader, record.leader_epoch)

    def nearer_replica(self, partition: Partition, rack: str, offset: int) -> BrokerId | None:
        """A follower in sync on the reader's rack that has what it asks for (KIP-392)."""
        if rack == self.settings.rack or not self.settings["replica.selector.class"]:
            return None
        state = partition.state
        return next(
            (
                each
                for each in sorted(state.isr)
                if each in self.members
                and self.members[each].rack == rack
                and state.follower_end(each) >= offset
            ),
            None,
        )

    def missing_code(self, name: str | None, topic_id: UUID | None, index: int) -> ErrorCode:
        """Why `find` found nothing: there is no such partition, or another broker leads it."""
        topics = self.topics
        topic = topics.by_id(topic_id) if topic_id is not None else topics.by_name(name or "")
        if topic is None:
            unknown = ErrorCode.unknown_topic_or_partition
            return unknown if topic_id is None else ErrorCode.unknown_topic_id
        if not 0 <= index < len(topic.partitions):
            return ErrorCode.unknown_topic_or_partition
        if topic.record.partitions[index].leader == self.node_id:
            return ErrorCode.kafka_storage_error
        return ErrorCode.not_leader_or_follower

    def serves(self, api: ApiKey) -> bool:
        return api in self.served_apis

    def problems(self) -> list[str]:
        """What is wrong and needs somebody's eye."""
        return [
            f"log directory {directory.path} is offline: {directory.offline}"
            for directory in self.storage.offline
        ]

    # -- waiting

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        return await self.loop.run_in_executor(self.threads, work)

    def when_synced(self, partition: Partition, end: int) -> "asyncio.Future[object]":
        """Done when every record of the partition below `end` is on disk; many share one sync."""
        synced: asyncio.Future[object] = self.loop.create_future()

        def finish(done: "Future[object]") -> None:
            self.loop.call_soon_threadsafe(_copy_outcome, done, synced)

        self.group_commit.request(partition.log, end).add_done_callback(finish)  # type: ignore[arg-type]
        return synced

    def when_safe(self, partition: Partition, end: int) -> "asyncio.Future[object]":
        """Done when every record below `end` is as safe as acks=all asks: with all replicas that
        are in sync, and on disk where that is waited for."""
        committed = future_of(partition.when_committed(end), self.loop)
        if not partition.syncs_before_answer:
            return committed
        both = asyncio.gather(committed, self.when_synced(partition, end))
        return cast("asyncio.Future[object]", both)

    # -- the cluster's state

    async def administer(
        self, work: Callable[[Controller], Result], follow: Callable[[], None] | None = None
    ) -> Result:
        """Run a command of the controller. One at a time, durable on return.

        Args:
            follow: takes over what the command changed, on the loop, before the next command runs.
        """
        return await self._to_the_end(self._administer(work, follow))

    async def _administer(
        self, work: Callable[[Controller], Result], follow: Callable[[], None] | None
    ) -> Result:
        async with self._administering:
            try:
                result = await self._in_controller(work)
            finally:
                # Also what others changed, and what a command that failed has learned.
                await self._follow_changes(self._controller.take_changes())
            if follow is not None:
                follow()
        return result

    async def _to_the_end(self, command: Coroutine[Any, Any, Result]) -> Result:
        """A client that goes away cancels its wait, never a change that is half done."""
        task = self.loop.create_task(command)
        self._commands.add(task)
        task.add_done_callback(self._command_ended)
        return await asyncio.shield(task)

    def _command_ended(self, task: "asyncio.Task[Any]") -> None:
        self._commands.discard(task)
        if not task.cancelled():
            # Nobody may be left to be told; asyncio would complain of that.
            task.exception()

    async def _in_controller(self, work: Callable[[Controller], Result]) -> Result:
        return await self.loop.run_in_executor(self._controller_thread, work, self._controller)

    async def change_topics(self, work: Callable[[Controller], TopicPlan]) -> TopicPlan:
        """Run a command that creates, grows or deletes topics, and follow it on this broker.

        To its end, also when the client who asked goes away: a topic must not exist unserved.
        """
        return await self._to_the_end(self._change_topics(work))

    async def _change_topics(self, work: Callable[[Controller], TopicPlan]) -> TopicPlan:
        return await self._administer(work, None)

    async def _follow_changes(self, changes: list[Change]) -> None:
        """Take over what has changed in the cluster's state, whoever changed it.

        Topics of transactions last: those that were decided write their markers into the others.
        """
        others: set[type] = set()
        topics: list[Change] = []
        for change in changes:
            match change.entity:
                case BrokerRecord(broker_id=broker_id) as member:
                    if isinstance(change, Put):
                        self.members[broker_id] = member
                    else:
                        self.members.pop(broker_id, None)
                        self.peers.forget(broker_id)
                        self.fetchers.reconnect(broker_id)
                case TopicRecord():
                    topics.append(change)
                case other:
                    others.add(type(other))
        for kind in others:
            _FOLLOWERS[kind](self)
        for change in sorted(topics, key=lambda each: _is_transactions(each)):
            try:
                await self._follow_topic(change)
            except StorageError as error:
                log.error("a topic is not served", topic=str(change.entity), reason=str(error))

    async def _follow_topic(self, change: Change) -> None:
        record = change.entity
        assert isinstance(record, TopicRecord)
        if not isinstance(change, Put):
            await self._remove_topic(record.name)
            return
        known = self.topics.by_name(record.name)
        if known is not None and known.topic_id != record.topic_id:
            # Deleted and created again, heard of as one change.
            await self._remove_topic(record.name)
        reconfigured = known is not None and known.record.configs != record.configs
        await self.restore_topic(record)
        if reconfigured:
            self.follow_topic_config(record.name)

    async def restore_topic(self, record: TopicRecord) -> None:
        """Serve a topic. Its logs may be missing: a crash may have come between, or it is new."""
        if self.storage.lacks(record):
            await self.in_thread(lambda: self.storage.make(record))
        unused = self.add_topic(record)
        if unused:
            await self.in_thread(lambda: self.storage.delete(unused))

    async def restore_topics(self) -> None:
        """At the start: every topic there is. As it is by now, and with no command in between, or a
        record that is older than one that was followed already would be followed after it.

        Transactions last: those that were decided write their markers into the others at once.
        """
        async with self._administering:
            topics = self._controller.state.topics.values()
            for topic in sorted(topics, key=lambda topic: topic.name == TRANSACTION_STATE):
                await self.restore_topic(topic)

    def follow_all(self) -> None:
        """At the start: what was set while the broker ran before."""
        self.follow_broker_configs()
        self.follow_quotas()
        self.follow_acls()
        self.follow_credentials()

    def follow_broker_configs(self) -> None:
        """Take over dynamic configurations: those of all brokers, then this one's own."""
        configs = self._controller.state.broker_configs
        texts: dict[str, str] = {}
        for whose in (None, self.node_id):
            if whose in configs:
                texts.update(configs[whose].configs)
        self.settings.set_dynamic(texts)
        for directory in self.storage.directories:
            directory.configure_all()
        for follower in self.settings_followers:
            follower()

    def follow_topic_config(self, name: str) -> None:
        for directory in self.storage.directories:
            directory.configure(name)
        topic = self.topics.by_name(name)
        for partition in () if topic is None else topic.partitions:
            if partition is not None:
                partition.follow_config()

    def follow_features(self) -> None:
        """Clients believe the answer with the higher epoch, so it grows over restarts too."""
        found = self._controller.state.features.values()
        self.features = {each.name: each.level for each in found if each.level > 0}
        self.features_epoch = max(self.features_epoch + 1, self.clock.wall_ms())

    def follow_acls(self) -> None:
        if self.guard.authorizer is not None:
            self.guard.authorizer.set_acls(self._controller.state.acls)

    def follow_credentials(self) -> None:
        self.authentication.set_credentials(dict(self._controller.state.credentials))

    def follow_quotas(self) -> None:
        """Take over the quotas of the cluster's state."""
        quotas = self._controller.state.quotas.values()
        self.quotas.set_limits({quota.entity: dict(quota.values) for quota in quotas})

    def add_topic(self, record: TopicRecord) -> list[TopicPartition]:
        """Lead, follow or leave each partition of a topic, as its record says; its logs exist.

        Returns:
            partitions that have left this broker: their logs are of no use any more.
        """
        topic = self.topics.by_name(record.name)
        if topic is None:
            topic = Topic(record)
            self.topics.add(topic)
        topic.record = record
        led: list[Partition] = []
        unused: list[TopicPartition] = []
        for index, partition in enumerate(record.partitions):
            if index == len(topic.partitions):
                topic.partitions.append(None)
            if partition.leader == self.node_id:
                new = self._lead(topic, index, partition)
                if new is not None:
                    led.append(new)
                continue
            self._stop_leading(topic, index)
            if self.node_id in partition.replicas:
                self._follow_leader(topic, index, partition)
            elif self.storage.directory_of(TopicPartition(record.name, index)) is not None:
                self._stop_following(topic, index)
                unused.append(TopicPartition(record.name, index))
        self.topics.changed()
        self._begin_leading(record.name, led)
        return unused

    def _lead(self, topic: Topic, index: int, record: PartitionRecord) -> Partition | None:
        """The partition, if this broker begins to lead it in this epoch."""
        known = topic.partitions[index]
        if known is not None and known.leader_epoch == record.leader_epoch:
            known.follow(record, self.clock.monotonic_ms())
            return None
        self._stop_leading(topic, index)
        self._stop_following(topic, index)
        partition = self._open(TopicPartition(topic.name, index), record)
        topic.partitions[index] = partition
        return partition

    def _begin_leading(self, name: str, led: list[Partition]) -> None:
        if name == CONSUMER_OFFSETS:
            self.groups.load(led)
        elif name == TRANSACTION_STATE:
            self.transactions.load(led)
        elif not self._columns_loaded and any(each.log.config.compacted for each in led):
            self._columns_loaded = True
            self.threads.submit(_load_columns)

    def _stop_leading(self, topic: Topic, index: int) -> None:
        partition = topic.partitions[index]
        if partition is None:
            return
        topic.partitions[index] = None
        partition.resign()
        if topic.name == CONSUMER_OFFSETS:
            self.groups.unload(index)
        elif topic.name == TRANSACTION_STATE:
            self.transactions.unload(index)

    def _follow_leader(self, topic: Topic, index: int, record: PartitionRecord) -> None:
        known = topic.followers.get(index)
        if known is not None and known.leader_epoch == record.leader_epoch:
            return
        name = TopicPartition(topic.name, index)
        stored = self.storage.log_of(name)
        if stored is None:
            return
        follower = Follower(name, topic.record.topic_id, stored, record.leader, record.leader_epoch)
        topic.followers[index] = follower
        self.fetchers.follow(follower)

    def _stop_following(self, topic: Topic, index: int) -> None:
        follower = topic.followers.pop(index, None)
        if follower is not None:
            follower.wake_all()
            self.fetchers.leave(TopicPartition(topic.name, index))

    def _open(self, name: TopicPartition, record: PartitionRecord) -> Partition | None:
        """None when its directory is offline: clients are told, the others are served."""
        stored = self.storage.log_of(name)
        if stored is None:
            return None
        if len(record.replicas) > 1:
            # Before it writes anything: followers are told where the epoch before ended.
            stored.epochs.assign(record.leader_epoch, stored.log_end_offset)
        return Partition(
            name,
            stored,
            record.leader_epoch,
            self.node_id,
            record=record,
            now_ms=self.clock.monotonic_ms(),
        )

    def offline_partitions(self) -> list[TopicPartition]:
        """Those this broker leads or is in sync for, on a log directory that has failed."""
        failed = self.storage.offline
        if not failed:
            return []
        return [
            name
            for topic in self.topics
            for index, record in enumerate(topic.record.partitions)
            if self.node_id in record.isr and (record.leader == self.node_id or len(record.isr) > 1)
            for name in [TopicPartition(topic.name, index)]
            if any(name in directory for directory in failed)
        ]

    def full_partitions(self) -> list[TopicPartition]:
        """Those this broker leads, where there was no room for the last append."""
        return [each.name for each in self.topics.partitions() if each.no_room]

    def _copied(self, size_bytes: int) -> None:
        self.metrics.replicated_bytes += size_bytes

    async def _remove_topic(self, name: str) -> None:
        topic = self.topics.by_name(name)
        if topic is None:
            return
        self.topics.remove(topic)
        names = [TopicPartition(name, index) for index in range(len(topic.partitions))]
        for index in range(len(topic.partitions)):
            self._stop_leading(topic, index)
            self._stop_following(topic, index)
        self.groups.topics_deleted({name})
        if name == TRANSACTION_STATE:
            self.transactions.stop()
        await self.in_thread(lambda: self.storage.delete(names))

    async def delete_strays(self) -> None:
        """Logs of topics that were deleted, or moved away, while this broker was not there."""
        strays = self.storage.strays(self._controller.state.topics)
        if strays:
            log.warning("logs that belong to no topic here are deleted", count=len(strays))
            await self.in_thread(lambda: self.storage.delete(strays))

    # -- internal topics

    async def internal_topic(self, name: str) -> Topic:
        topic = self.topics.by_name(name)
        if topic is not None:
            return topic
        wanted = self.settings.internal_topic(name, len(self.members))
        plan = await self.create_topics([wanted])
        outcome = plan.outcomes[name]
        topic = self.topics.by_name(name)
        if topic is None:
            reason = outcome.message if isinstance(outcome, Rejection) else "it is not served here"
            raise HeadraceError(f"cannot create {name}: {reason}")
        return topic

    async def create_topics(
        self, wanted: list[NewTopic], *, validate_only: bool = False
    ) -> TopicPlan:
        defaults = TopicDefaults(
            partitions=self.settings.num_partitions,
            replication_factor=self.settings.default_replication_factor,
        )

        def create(controller: Controller) -> TopicPlan:
            return controller.create_topics(wanted, defaults=defaults, validate_only=validate_only)

        return await (self.administer(create) if validate_only else self.change_topics(create))

    # -- producer ids

    def take_producer_id(self) -> ProducerId | None:
        """An id never given before; None until the block that is being claimed has come."""
        taken = self._producer_ids.take()
        if self._producer_ids.wants_block and self._claiming is None:
            self._claiming = self.loop.create_task(self.claim_producer_ids())
        return taken

    async def claim_producer_ids(self) -> None:
        try:
            block = await self._in_controller(lambda _: claim_block(self._store, self.node_id))
            self._producer_ids.add_block(block)
        finally:
            self._claiming = None

    def shut_down(self) -> None:
        self.peers.close()
        self.threads.shutdown()
        self._controller_thread.shutdown()


# What is done when the cluster's state has changed, by what has.
_FOLLOWERS: Mapping[type, Callable[[Broker], None]] = {
    Acl: Broker.follow_acls,
    BrokerConfig: Broker.follow_broker_configs,
    ClientQuota: Broker.follow_quotas,
    Feature: Broker.follow_features,
    ScramCredential: Broker.follow_credentials,
}


def _is_transactions(change: Change) -> bool:
    return isinstance(change.entity, TopicRecord) and change.entity.name == TRANSACTION_STATE


def _load_columns() -> None:
    """Records for a compacted topic are opened to see that they have keys. That takes numba, which
    takes most of a second to load: here, in a thread, instead of in the first produce."""
    importlib.import_module("headrace.records.decode")


def _copy_outcome(done: "Future[object]", waiting: "asyncio.Future[object]") -> None:
    if waiting.cancelled():
        return
    error = done.exception()
    if error is not None:
        waiting.set_exception(error)
    else:
        waiting.set_result(done.result())
