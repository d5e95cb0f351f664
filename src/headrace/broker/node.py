"""The broker itself: what every handler reaches, and nothing that listens.

`server` starts and stops it and gives it sockets; handlers and coordinators work on it. It lives
on the event loop. What may wait for the disk goes through `in_thread`, and every change of the
cluster's state through `administer`, which runs one at a time in the controller's own thread.
"""

import asyncio
import importlib
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar
from uuid import UUID

import structlog

from headrace.broker.authentication import Authentication
from headrace.broker.fetch_session import FetchSessions
from headrace.broker.group_coordinator import GroupCoordinator
from headrace.broker.guard import Guard
from headrace.broker.listener import Listener
from headrace.broker.metric import BrokerMetrics
from headrace.broker.partition import Partition
from headrace.broker.quota import Quotas
from headrace.broker.settings import BrokerSettings
from headrace.broker.topics import (
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    Topic,
    Topics,
)
from headrace.broker.transaction_coordinator import TransactionCoordinator
from headrace.cluster.controller import Controller
from headrace.cluster.rejection import Rejection
from headrace.cluster.state import Change, Put
from headrace.cluster.store import ClusterStore
from headrace.cluster.topic import Topic as TopicRecord
from headrace.cluster.topic_command import NewTopic, TopicDefaults, TopicPlan
from headrace.log.group_commit import GroupCommit
from headrace.log.log_directory import LogDirectory
from headrace.model.clock import Clock
from headrace.model.error import HeadraceError, StorageError
from headrace.model.ids import LeaderEpoch, ProducerId, TopicPartition
from headrace.transactions.producer_ids import ProducerIds, claim_block
from headrace.wire.api import ApiKey

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
        self.topics = Topics()
        self.directories: list[LogDirectory] = []
        self.fetch_sessions = FetchSessions(settings.fetch_session_slots)
        self.fetch_max_bytes = settings.fetch_max_bytes
        self.quotas = Quotas(clock)
        self.authentication = authentication
        self.guard = Guard(settings.authorizer(), self.topics)
        self.features: Mapping[str, int] = {}
        self.features_epoch = 0
        self.settings_followers: list[Callable[[], None]] = []
        self.metrics = BrokerMetrics()
        self.groups = GroupCoordinator(self, settings.groups())
        self.transactions = TransactionCoordinator(
            self, settings.transactions(), self.groups.transaction_ended
        )
        self.group_commit = GroupCommit()
        self.threads = ThreadPoolExecutor(4, thread_name_prefix="broker")
        # Holds compaction off a partition that is taken away; the server puts its worker here.
        self.uncompacted: Callable[[TopicPartition], AbstractContextManager[None]] = lambda _: (
            nullcontext()
        )
        self._columns_loaded = False
        self.served_apis: frozenset[ApiKey] = frozenset()
        # Calls something when the request that is being served has been.
        self.soon: Callable[[Callable[[], object]], object] = loop.call_soon
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

    def serves(self, api: ApiKey) -> bool:
        return api in self.served_apis

    def problems(self) -> list[str]:
        """What is wrong and needs somebody's eye."""
        return [
            f"log directory {directory.path} is offline: {directory.offline}"
            for directory in self.directories
            if directory.offline is not None
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
            result = await self._in_controller(work)
            if follow is not None:
                follow()
        return result

    async def _to_the_end(self, command: Coroutine[Any, Any, Result]) -> Result:
        """A client that goes away cancels its wait, never a change that is half done."""
        task = self.loop.create_task(command)
        self._commands.add(task)
        task.add_done_callback(self._commands.discard)
        return await asyncio.shield(task)

    async def _in_controller(self, work: Callable[[Controller], Result]) -> Result:
        return await self.loop.run_in_executor(self._controller_thread, work, self._controller)

    async def change_topics(self, work: Callable[[Controller], TopicPlan]) -> TopicPlan:
        """Run a command that creates, grows or deletes topics, and follow it on this broker.

        To its end, also when the client who asked goes away: a topic must not exist unserved.
        """
        return await self._to_the_end(self._change_topics(work))

    async def _change_topics(self, work: Callable[[Controller], TopicPlan]) -> TopicPlan:
        async with self._administering:
            plan = await self._in_controller(work)
            for change in plan.changes:
                if change.entity.KIND == TopicRecord.KIND:
                    await self._follow(change)
        return plan

    async def _follow(self, change: Change) -> None:
        record = change.entity
        assert isinstance(record, TopicRecord)
        if isinstance(change, Put):
            await self.in_thread(lambda: self._make_logs(record))
            self.add_topic(record)
        else:
            await self._remove_topic(record)

    def _make_logs(self, record: TopicRecord) -> None:
        """Create the logs of a topic that are not there yet; in a thread, it waits for the disk."""
        for index in range(len(record.partitions)):
            name = TopicPartition(record.name, index)
            if self._directory_of(name) is None:
                self._emptiest_directory().create(name, record.topic_id)

    async def restore_topic(self, record: TopicRecord) -> None:
        """At the start: a crash may have come between the topic's record and its logs."""
        if any(
            self._directory_of(TopicPartition(record.name, index)) is None
            for index in range(len(record.partitions))
        ):
            await self.in_thread(lambda: self._make_logs(record))
        self.add_topic(record)

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
        for directory in self.directories:
            directory.configure_all()
        for follower in self.settings_followers:
            follower()

    def follow_topic_config(self, name: str) -> None:
        for directory in self.directories:
            directory.configure(name)

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

    def add_topic(self, record: TopicRecord) -> None:
        """Serve a topic whose logs exist, or the partitions it has grown by."""
        topic = self.topics.by_name(record.name)
        if topic is None:
            topic = Topic(record.name, record.topic_id)
            self.topics.add(topic)
        first = len(topic.partitions)
        for index in range(first, len(record.partitions)):
            name = TopicPartition(record.name, index)
            topic.partitions.append(self._open(name, record.partitions[index].leader_epoch))
        self.topics.changed()
        added = [partition for partition in topic.partitions[first:] if partition is not None]
        if record.name == CONSUMER_OFFSETS:
            self.groups.load(added)
        elif record.name == TRANSACTION_STATE:
            self.transactions.load(added)
        elif not self._columns_loaded and any(each.log.config.compacted for each in added):
            self._columns_loaded = True
            self.threads.submit(_load_columns)

    def _open(self, name: TopicPartition, leader_epoch: LeaderEpoch) -> Partition | None:
        """None when its directory is offline: clients are told, the others are served."""
        directory = self._directory_of(name)
        if directory is None:
            log.error("a partition has no log", partition=str(name))
            return None
        try:
            return Partition(name, directory.get(name), leader_epoch, self.node_id)
        except StorageError as error:
            log.error("a partition is offline", partition=str(name), reason=str(error))
            return None

    async def _remove_topic(self, record: TopicRecord) -> None:
        topic = self.topics.by_name(record.name)
        if topic is None:
            return
        self.topics.remove(topic)
        partitions = [partition for partition in topic.partitions if partition is not None]
        for partition in partitions:
            partition.wake_all()
        self.groups.topics_deleted({record.name})
        if record.name == TRANSACTION_STATE:
            self.transactions.stop()

        def delete() -> None:
            for partition in partitions:
                directory = self._directory_of(partition.name)
                if directory is not None:
                    with self.uncompacted(partition.name):
                        directory.delete(partition.name)

        await self.in_thread(delete)

    def _directory_of(self, name: TopicPartition) -> LogDirectory | None:
        for directory in self.directories:
            if name in directory:
                return directory
        return None

    def _emptiest_directory(self) -> LogDirectory:
        online = [directory for directory in self.directories if directory.offline is None]
        if not online:
            raise StorageError("every log directory is offline: nothing can be created")
        return min(online, key=lambda directory: len(directory.partitions))

    # -- internal topics

    async def internal_topic(self, name: str) -> Topic:
        topic = self.topics.by_name(name)
        if topic is not None:
            return topic
        wanted = self.settings.internal_topic(name)
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
        self.threads.shutdown()
        self._controller_thread.shutdown()


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
