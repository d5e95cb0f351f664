"""The broker itself: what every handler reaches, and nothing that listens.

`server` constructs it, starts and stops it, and gives it sockets; handlers and coordinators work on
it. It lives on the event loop. Work that may wait for the disk goes through `in_thread`, and every
change of the cluster's state through `controller`, which runs one command at a time in the
controller's own thread.

The parts know each other through small protocols that `Broker` implements, so that none of them
imports it: `ReplicaHost` for the fetchers, `CoordinatorHost` for the coordinators, `MetadataTarget`
and `MemberHost` for the membership. Each of them only keeps the broker while `__init__` runs, and
uses it later, when all parts are there.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar, cast

from headrace.broker.auth.authentication import Authentication
from headrace.broker.client_metrics.client_metrics import ClientMetrics
from headrace.broker.config.internal_topic import CONSUMER_OFFSETS, TRANSACTION_STATE
from headrace.broker.config.listener import Listener
from headrace.broker.config.settings import BrokerSettings
from headrace.broker.coordinator.group_coordinator import GroupCoordinator
from headrace.broker.coordinator.producer_id_source import ProducerIdSource
from headrace.broker.coordinator.transaction_coordinator import TransactionCoordinator
from headrace.broker.guard import Guard, configured_authorizer
from headrace.broker.membership.cluster_member import ClusterMember
from headrace.broker.membership.cluster_view import ClusterView
from headrace.broker.membership.controller_client import ControllerClient
from headrace.broker.membership.finalized_features import FinalizedFeatures
from headrace.broker.membership.membership import Membership
from headrace.broker.membership.metadata_applier import MetadataApplier
from headrace.broker.membership.packed_topics import PackedTopics
from headrace.broker.membership.standalone import StandaloneMember
from headrace.broker.metric import BrokerMetrics
from headrace.broker.mirror.mirror_links import MirrorLinks
from headrace.broker.network.callback_future import future_of
from headrace.broker.peer.connector import PeerConnector
from headrace.broker.peer.transaction_client import TransactionClient
from headrace.broker.quota import Quotas
from headrace.broker.replica.batch_opener import BatchOpener
from headrace.broker.replica.fetch_session import FetchSessions
from headrace.broker.replica.fetch_turn import FetchTurns
from headrace.broker.replica.fetchers import ReplicaFetchers
from headrace.broker.replica.log_storage import LogStorage
from headrace.broker.replica.partition import Partition
from headrace.broker.replica.refused_batch import RefusedBatches
from headrace.broker.replica.replica_roles import ReplicaRoles
from headrace.broker.replica.replication_throttle import ReplicationThrottle
from headrace.broker.replica.topic_table import TopicTable
from headrace.broker.schema.registered_schemas import RegisteredSchemas
from headrace.broker.schema.schema_check import SchemaChecks
from headrace.broker.schema.schema_lookup import SchemaLookup
from headrace.cluster.broker import BrokerRecord
from headrace.cluster.controller import Controller
from headrace.cluster.store import ClusterStore
from headrace.log.partition.group_commit import GroupCommit
from headrace.model.clock import Clock
from headrace.model.ids import BrokerId

Result = TypeVar("Result")


class Broker:
    """One broker's state. `Server.start` makes it.

    Args:
        store: where the cluster's state is kept; `controller` works on it.
        shared: whether other brokers share the store.
        storage: the log directories; they are opened later.
        advertised_listeners: where clients reach this broker, by the listener's name.
        call_after_event: calls something right after the socket event that is being served.
        schema_lookup: the schema registry; None without one.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        *,
        cluster_id: str,
        store: ClusterStore,
        controller: Controller,
        shared: bool,
        authentication: Authentication,
        storage: LogStorage,
        advertised_listeners: Mapping[str, Listener],
        call_after_event: Callable[[Callable[[], object]], object],
        schema_lookup: SchemaLookup | None = None,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self.loop = asyncio.get_running_loop()
        self.cluster_id = cluster_id
        self.node_id = settings.node_id
        self.call_after_event = call_after_event
        self.metrics = BrokerMetrics(settings["headrace.metrics.max.topics"])
        self.threads = ThreadPoolExecutor(4, thread_name_prefix="broker")
        # Thousands of logs may wait to be truncated after a failover; nothing else waits for them.
        self.log_threads = ThreadPoolExecutor(4, thread_name_prefix="log-change")
        self._controller_thread = ThreadPoolExecutor(1, thread_name_prefix="controller")

        # The brokers that are running, by id; the registration of this one has its epoch.
        self.members: dict[BrokerId, BrokerRecord] = {}
        self.advertised_listeners = advertised_listeners
        self.cluster_view = ClusterView(settings, self.members, advertised_listeners)
        self.topics = TopicTable(settings, self.members)
        self.packed_topics = PackedTopics(self.topics, self.cluster_view)
        self.quotas = Quotas(clock)
        self.client_metrics = ClientMetrics(clock)
        self.authentication = authentication
        self.guard = Guard(configured_authorizer(settings), self.topics)
        self.features = FinalizedFeatures(clock)

        self.peer_connector = PeerConnector(settings, self.members.get)
        self.transaction_client = TransactionClient(self.peer_connector)
        self.storage = storage
        self.group_commit = GroupCommit()
        self.batch_opener = BatchOpener(self.loop)
        self.schema_checks = SchemaChecks(
            RegisteredSchemas(
                self.loop, schema_lookup, settings["confluent.schema.registry.max.cache.size"]
            )
        )
        self.refused_batches = RefusedBatches()
        self.fetch_sessions = FetchSessions(settings.fetch_session_slots)
        self.fetch_turns = FetchTurns()
        self.fetch_max_bytes = settings.fetch_max_bytes
        self.leader_throttle = ReplicationThrottle(
            clock, lambda: int(settings["leader.replication.throttled.rate"])
        )
        self.fetchers = ReplicaFetchers(
            self,
            settings,
            self.peer_connector,
            ReplicationThrottle(
                clock, lambda: int(settings["follower.replication.throttled.rate"])
            ),
        )

        self.producer_ids = ProducerIdSource(
            self.loop,
            store,
            self.node_id,
            self._controller_thread,
            lambda: int(settings["headrace.producer.id.lowest"]),
        )
        # The keys that were set for single groups; the metadata applier changes them.
        self.group_configs: dict[str, Mapping[str, int]] = {}
        self.groups = GroupCoordinator(self, settings.groups(self.group_configs))
        self.transactions = TransactionCoordinator(
            self, settings.transactions(), self.groups.transaction_ended
        )
        self.roles = ReplicaRoles(
            self.node_id,
            clock,
            self.topics,
            storage,
            self.fetchers,
            {CONSUMER_OFFSETS: self.groups, TRANSACTION_STATE: self.transactions},
            self.threads,
            self.metrics,
        )

        self.mirror_links = MirrorLinks(self, settings, self.topics)
        self.applier = MetadataApplier(self, controller)
        self.controller = ControllerClient(
            controller,
            self._controller_thread,
            self.applier,
            settings=settings,
            topics=self.topics,
            members=self.members,
        )
        self.membership: Membership = (
            ClusterMember(self, store)
            if shared
            else StandaloneMember(self.node_id, self.controller, self.applier)
        )

    @property
    def broker_epoch(self) -> int:
        """The epoch that this process registered last; -1 before it did. What the cluster's state
        says of the id may be another process's."""
        return self.roles.epoch

    def broker_gone(self, record: BrokerRecord) -> None:
        """React to another broker whose process has ended."""
        self.membership.broker_gone(record)

    def follower_fetched(
        self,
        partition: Partition,
        replica_id: int,
        fetch_offset: int,
        replica_epoch: int,
        now_ms: int,
    ) -> None:
        """Count how far a follower has come, by its fetch; once per request."""
        follower = BrokerId(replica_id)
        isr = partition.follower_fetched(
            follower, fetch_offset, now_ms=now_ms, broker_epoch=replica_epoch
        )
        if isr is None:
            return
        # The cluster would refuse a follower without a registration, fetch after fetch.
        member = self.members.get(follower)
        if member is not None and member.epoch == replica_epoch:
            self.membership.propose_isr(partition, isr)

    # -- waiting

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        """Run blocking work off the loop."""
        return await self.loop.run_in_executor(self.threads, work)

    def when_synced(self, partition: Partition, end: int) -> "asyncio.Future[object]":
        """Return a future that is done when every record of the partition below `end` is on disk.
        Many of them share one sync."""
        synced: asyncio.Future[object] = self.loop.create_future()

        def finish(done: "Future[object]") -> None:
            self.loop.call_soon_threadsafe(_copy_outcome, done, synced)

        self.group_commit.request(partition.log, end).add_done_callback(finish)  # type: ignore[arg-type]
        return synced

    def when_safe(self, partition: Partition, end: int) -> "asyncio.Future[object]":
        """Return a future that is done when every record below `end` is as safe as acks=all asks:
        with all replicas that are in sync, and on disk where the topic asks for that."""
        committed = future_of(partition.when_committed(end), self.loop)
        if not partition.syncs_before_answer:
            return committed
        both = asyncio.gather(committed, self.when_synced(partition, end))
        return cast("asyncio.Future[object]", both)

    # -- the end

    async def close(self) -> None:
        """Stop the coordinators, flush the logs and mark them clean."""
        await self.mirror_links.close()
        self.groups.stop()
        self.transactions.stop()
        self.schema_checks.registered.close()
        self.batch_opener.close()
        self.group_commit.close()
        await self.applier.topics.settle()
        await self.loop.run_in_executor(None, self.storage.moves.stop)
        for directory in self.storage.directories:
            await self.loop.run_in_executor(None, directory.close)
        self.transaction_client.close()
        self.threads.shutdown()
        self.log_threads.shutdown()
        self._controller_thread.shutdown()


def _copy_outcome(done: "Future[object]", waiting: "asyncio.Future[object]") -> None:
    if waiting.cancelled():
        return
    error = done.exception()
    if error is not None:
        waiting.set_exception(error)
    else:
        waiting.set_result(done.result())
