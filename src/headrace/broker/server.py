"""Starting and stopping a broker.

Order matters. Starting: the lock, the cluster's state, the addresses (a port in use must be known
before a long recovery), the logs, recovering after a crash, and only then the first connection; so
every client that is accepted is served. The admin port answers all the while: alive, but not ready.
Stopping is the same backwards: no new requests, answer the requests that came, end background work,
and at last the logs, which are flushed and marked clean. A start that fails undoes what it had
done.

Construction order
------------------
`Server` constructs these, in this order; each gets what it needs, complete, in its constructor:

    DirectoryLock, ClusterStore, Controller    the cluster's state, and commands that change it
    Authentication, FilePool                   from the settings
    CompactionWorker -> LogStorage             storage opens the logs later, and pauses compaction
    ListeningSockets, Poller                   where clients connect, and when a socket is ready
    Broker                                     everything that handlers reach
      TopicTable, ClusterView, Guard, Quotas   look-ups, without a reference to the broker
      SchemaChecks(SchemaLookup)               asks the schema registry, where topics want it
      PeerConnector <- TransactionClient       connections to other brokers
      ReplicaFetchers(ReplicaHost)             copies partitions; reports brokers that are gone
      GroupCoordinator, TransactionCoordinator, ProducerIdSource   (CoordinatorHost)
      ReplicaRoles                             leads and follows, with fetchers and coordinators
      MetadataApplier(MetadataTarget)          changes of the cluster's state to all of the above
      ControllerClient                         runs commands, then the applier
      Membership                               StandaloneMember, or ClusterMember(MemberHost)
    Dispatch(Broker) -> Acceptor               frames to handlers; sockets and connections
    LoopWatch, AdminHttp, Maintenance          loop lag, health, metrics, background chores

Names in brackets are the protocols through which a part reaches the broker; it never imports it.
"""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace

import structlog

from headrace.broker.auth.authentication import Authentication
from headrace.broker.broker import Broker
from headrace.broker.client_metrics.pushed_metrics import render_page
from headrace.broker.config.listener import Listener
from headrace.broker.config.settings import BrokerSettings
from headrace.broker.dispatch import Dispatch
from headrace.broker.handlers.registry import load_all
from headrace.broker.network.acceptor import Acceptor
from headrace.broker.network.connection_limits import ConnectionLimits
from headrace.broker.network.descriptor import raise_limit
from headrace.broker.network.listening_socket import ListeningSocket
from headrace.broker.network.poller import Poller
from headrace.broker.operation.admin_http import AdminHttp
from headrace.broker.operation.broker_readings import (
    client_readings,
    cluster_readings,
    loop_readings,
    request_readings,
    storage_readings,
)
from headrace.broker.operation.compaction_worker import CompactionLimits, CompactionWorker
from headrace.broker.operation.directory_upkeep import for_each_directory
from headrace.broker.operation.loop_watch import LoopWatch
from headrace.broker.operation.maintenance import Chore, Maintenance
from headrace.broker.operation.metrics_page import MetricsPage
from headrace.broker.replica.directory_id import directory_ids, home_of
from headrace.broker.replica.log_storage import LogStorage
from headrace.broker.schema.schema_lookup import SchemaLookup
from headrace.cluster.broker import BrokerRecord, Endpoint
from headrace.cluster.controller import Controller
from headrace.cluster.local_store import LocalStore
from headrace.cluster.store import ClusterStore
from headrace.log.directory_lock import DirectoryLock
from headrace.log.file_pool import FilePool
from headrace.log.filesystem import Disk
from headrace.log.index.index_cache import IndexCache
from headrace.log.log_directory import LogDirectory
from headrace.model.clock import Clock, SystemClock
from headrace.model.error import ConfigError, StorageError, VersionConflict
from headrace.model.ids import random_uuid, uuid_text
from headrace.telemetry.histogram import SharedHistogram
from headrace.telemetry.reading import load_prometheus

log = structlog.get_logger(__name__)

_CLUSTER_DIRECTORY = "cluster"
_CLUSTER_ID_PATH = "/cluster/id"
_DRAIN_SECONDS = 5.0
_LOOPBACK = "127.0.0.1"
# How soon logs are made that found no room on a full disk.
_MISSING_LOGS_MS = 5_000
# How soon a certificate that was replaced is shown to those who connect.
_CERTIFICATES_MS = 10_000
# When the rest of the program is loaded: the first clients need the processor more.
_REST_SECONDS = 1.0


class Server:
    """One running broker. `await Server.start(settings)`, then `await server.stop()`.

    Attributes:
        listeners: the addresses that are bound, with the ports that the kernel chose.
        admin_port: where /healthz, /readyz and /metrics are; None without an admin listener.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        clock: Clock,
        open_store: Callable[[], ClusterStore] | None,
        schema_lookup: SchemaLookup | None,
    ) -> None:
        """Use `start`."""
        raise_limit()
        self._settings = settings
        self._clock = clock
        self._open_shared = open_store
        self._schema_lookup = schema_lookup
        self._sync_times = SharedHistogram()
        self._loop_watch = LoopWatch(
            asyncio.get_running_loop(), limit_ms=settings["headrace.debug.loop.ms"]
        )
        self._disk = Disk(self._note_sync)
        self._files = FilePool(self._disk)
        self._authentication = Authentication(settings, clock)
        self._compaction = CompactionWorker(clock, **_compaction_limits(settings))
        self._storage = LogStorage(settings.node_id, self._compaction)
        self._ready = False
        self.listeners: tuple[Listener, ...] = ()
        self.admin_port: int | None = None

    @classmethod
    async def start(
        cls,
        settings: BrokerSettings,
        clock: Clock | None = None,
        open_store: Callable[[], ClusterStore] | None = None,
        schema_lookup: SchemaLookup | None = None,
    ) -> "Server":
        """Open everything, recover what a crash left, and listen.

        Args:
            open_store: connects to the store that brokers of a cluster share; a broker alone has
                its own.
            schema_lookup: the schema registry that topics with schema validation need.

        Raises:
            ConfigError: an address that cannot be listened on.
            LogDirectoryLocked: another process uses the data.
            StorageError: a directory that cannot be used, or records that are damaged.
        """
        server = cls(settings, SystemClock() if clock is None else clock, open_store, schema_lookup)
        await server._start()
        return server

    async def _start(self) -> None:
        async with AsyncExitStack() as undo:
            store = await self._open_store(undo)
            sockets = self._bind(undo)
            self.broker = await self._make_broker(undo, store)
            self.broker.applier.apply_all()
            self.acceptor = self._make_acceptor(sockets)
            undo.push_async_callback(self.acceptor.stop, 0)
            await self._start_admin(undo)
            self._configure_moves()  # `_join` begins those again that an earlier process left
            await self.broker.loop.run_in_executor(None, self._open_logs)
            await self._join()
            self._start_chores(undo)
            self._undo = undo.pop_all()
        self.acceptor.start()
        self._ready = True
        loading = self.broker.loop.call_later(
            _REST_SECONDS, self.broker.threads.submit, _load_the_rest
        )
        self._undo.callback(loading.cancel)

    async def _open_store(self, undo: AsyncExitStack) -> ClusterStore:
        """Lock the data, and open the store of the cluster's state."""
        home = self._settings.log_dirs[0] / _CLUSTER_DIRECTORY
        try:
            self._disk.make_directory(home)
        except OSError as error:
            raise StorageError(
                f"{self._settings.log_dirs[0]} cannot hold the broker's data: "
                f"{error.strerror or error}"
            ) from error
        lock = DirectoryLock.acquire(self._disk, home)
        undo.callback(lock.release)
        if self._open_shared is None:
            store: ClusterStore = LocalStore.open(self._disk, home)
            undo.callback(store.close)
        else:
            loop = asyncio.get_running_loop()
            store = await loop.run_in_executor(None, self._open_shared)
            undo.push_async_callback(loop.run_in_executor, None, store.close)
        return store

    def _bind(self, undo: AsyncExitStack) -> list[ListeningSocket]:
        sockets: list[ListeningSocket] = []
        for listener in self._settings.listeners:
            sockets.append(
                ListeningSocket.bind(listener, self._settings["socket.listen.backlog.size"])
            )
            undo.callback(sockets[-1].close)
        self.listeners = tuple(each.listener for each in sockets)
        return sockets

    async def _make_broker(self, undo: AsyncExitStack, store: ClusterStore) -> Broker:
        settings, loop = self._settings, asyncio.get_running_loop()
        self._controller = await loop.run_in_executor(None, Controller, store)
        cluster_id = await loop.run_in_executor(None, _cluster_id, store, settings["cluster.id"])
        self._loop_watch.start()
        undo.callback(self._loop_watch.stop)
        self._poller = Poller(loop)
        undo.callback(self._poller.close)
        broker = Broker(
            settings,
            self._clock,
            cluster_id=cluster_id,
            store=store,
            controller=self._controller,
            shared=self._open_shared is not None,
            authentication=self._authentication,
            storage=self._storage,
            advertised_listeners=self._advertised_listeners(),
            call_after_event=self._poller.call_after_event,
            schema_lookup=self._schema_lookup,
        )
        undo.push_async_callback(broker.close)
        return broker

    def _advertised_listeners(self) -> dict[str, Listener]:
        """Return where clients connect, by the listener's name, with the ports that are bound."""
        advertised = dict(self._settings.advertised_listeners)
        for listener in self.listeners:
            name = listener.name
            if advertised[name].port == 0:
                advertised[name] = replace(advertised[name], port=listener.port)
            if advertised[name].wildcard:
                log.warning(
                    "loopback_advertised",
                    listener=str(listener),
                    advice="clients on other machines cannot connect: set advertised.listeners",
                )
                advertised[name] = replace(advertised[name], host=_LOOPBACK)
        return advertised

    def _make_acceptor(self, sockets: list[ListeningSocket]) -> Acceptor:
        return Acceptor(
            self._poller,
            self._connection_limits(),
            sockets,
            dispatch=Dispatch(self.broker),
            tls=self.broker.peer_connector.tls,
        )

    def _connection_limits(self) -> ConnectionLimits:
        return ConnectionLimits.of(self._settings, file_capacity=self._files.capacity)

    def _note_sync(self, seconds: float) -> None:
        self._sync_times.observe(seconds)
        self._loop_watch.note_sync(seconds)

    def _open_logs(self) -> None:
        """Open the log directories, in a thread, so that the admin port answers during a long
        recovery."""
        indexes = IndexCache()

        def own_configs(topic: str) -> dict[str, str]:
            record = self._controller.state.topics.get(topic)
            return {} if record is None else dict(record.configs)

        for path in self._settings.log_dirs:
            self._storage.add(
                LogDirectory.open(
                    path,
                    node_id=self._settings.node_id,
                    cluster_id=self.broker.cluster_id,
                    configs=self._settings.log_configs(own_configs),
                    clock=self._clock,
                    files=self._files,
                    indexes=indexes,
                    recovery_threads=self._settings["num.recovery.threads.per.data.dir"],
                )
            )

    async def _join(self) -> None:
        """Register this broker, write what its cluster needs, and serve every topic."""
        broker, membership = self.broker, self.broker.membership
        endpoints = tuple(
            Endpoint(each.name, each.host, each.port, each.protocol)
            for each in broker.advertised_listeners.values()
        )
        record = BrokerRecord(
            broker_id=broker.node_id,
            endpoints=endpoints,
            rack=self._settings.rack,
            home=home_of(self._storage.directories),
            directories=directory_ids(self._storage.online),
        )
        await membership.join(record)
        await membership.with_retries(
            lambda: broker.controller.administer(Controller.finalize_default_features)
        )
        await broker.controller.apply_features()
        login = broker.peer_connector.login
        if self._open_shared is not None and login is not None:
            await membership.with_retries(lambda: broker.controller.administer(login.ensure_known))
        await membership.with_retries(broker.producer_ids.claim_first)
        await broker.controller.restore_topics()

    def _start_chores(self, undo: AsyncExitStack) -> None:
        settings, broker, compaction = self._settings, self.broker, self._compaction
        chores = [
            Chore("retention", settings["log.retention.check.interval.ms"], self._keep_retention),
            Chore("flush", settings["log.flush.scheduler.interval.ms"], self._sync_due),
            Chore(
                "checkpoint", settings["log.flush.offset.checkpoint.interval.ms"], self._checkpoint
            ),
            Chore(
                "high watermark checkpoint",
                settings["replica.high.watermark.checkpoint.interval.ms"],
                self._save_high_watermarks,
            ),
            Chore(
                "offset expiry",
                settings["offsets.retention.check.interval.ms"],
                lambda: broker.loop.call_soon_threadsafe(broker.groups.expire),
            ),
            Chore(
                "missing logs",
                _MISSING_LOGS_MS,
                self._retry_logs,
            ),
        ]
        if settings["log.cleaner.enable"]:
            chores.append(
                Chore("compaction", lambda: settings["log.cleaner.backoff.ms"], compaction.run)
            )
        tls = broker.peer_connector.tls
        if tls is not None:
            chores.append(Chore("certificates", _CERTIFICATES_MS, tls.reload_if_changed))
        maintenance = Maintenance()
        undo.push_async_callback(maintenance.stop)
        undo.callback(compaction.stop)
        settings.subscribe(self._apply_settings)
        undo.callback(settings.unsubscribe, self._apply_settings)
        self._apply_settings()
        maintenance.start(chores)

    def _apply_settings(self) -> None:
        """Apply the settings that may change while the broker runs (KIP-226)."""
        self.acceptor.apply_limits(self._connection_limits())
        self._compaction.configure(**_compaction_limits(self._settings))
        self._configure_moves()

    def _configure_moves(self) -> None:
        settings = self._settings
        self._storage.moves.configure(
            threads=settings["num.replica.alter.log.dirs.threads"] or len(settings.log_dirs),
            bytes_per_second=settings["replica.alter.log.dirs.io.max.bytes.per.second"],
        )

    def _keep_retention(self) -> None:
        expiration_ms = self._settings["producer.id.expiration.ms"]
        for_each_directory(
            self._storage.online,
            lambda directory: directory.maintain(producer_expiration_ms=expiration_ms),
        )

    def _retry_logs(self) -> None:
        self._storage.open_again()
        self.broker.loop.call_soon_threadsafe(self.broker.applier.topics.retry)

    def _sync_due(self) -> None:
        for_each_directory(self._storage.online, LogDirectory.sync_due)

    def _save_high_watermarks(self) -> None:
        for_each_directory(self._storage.online, LogDirectory.save_high_watermarks)

    def _checkpoint(self) -> None:
        for_each_directory(self._storage.online, LogDirectory.checkpoint)

    async def _start_admin(self, undo: AsyncExitStack) -> None:
        broker = self.broker
        readings = [
            *request_readings(broker.metrics),
            *cluster_readings(broker),
            *client_readings(broker, self.acceptor),
            *storage_readings(broker, self._compaction, self._sync_times),
            *loop_readings(self._loop_watch),
        ]
        address = self._settings.admin_address
        if address is None:
            return
        admin = AdminHttp(
            ready=lambda: self._ready,
            problems=broker.storage.problems,
            metrics=MetricsPage(broker, readings),
            client_metrics=self._client_metrics_page,
        )
        undo.push_async_callback(admin.stop)
        try:
            self.admin_port = await admin.start(*address)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {address[0]}:{address[1]} for administration: "
                f"{error.strerror or error}"
            ) from error

    async def _client_metrics_page(self) -> bytes:
        pushes = self.broker.client_metrics.newest()
        return await self.broker.in_thread(lambda: render_page(pushes))

    async def stop(self) -> None:
        """Drain, flush, mark clean. Call it once."""
        self._ready = False
        await self.broker.membership.leave()
        self.acceptor.stop_accepting()
        # Requests parked in a rebalance or a long poll are answered now: nothing will come for
        # them any more, and they would use up the time to drain.
        self.broker.groups.stop()
        for partition in self.broker.topics.partitions():
            partition.release_all()
        await self.acceptor.stop(_DRAIN_SECONDS)
        await self._undo.aclose()


def _compaction_limits(settings: BrokerSettings) -> CompactionLimits:
    return {
        "memory_bytes": settings["log.cleaner.dedupe.buffer.size"],
        "bytes_per_second": settings["log.cleaner.io.max.bytes.per.second"],
    }


def _load_the_rest() -> None:
    """Load what was left out to start fast, before a request has to wait for it."""
    load_all()
    load_prometheus()


def _cluster_id(store: ClusterStore, configured: str | None) -> str:
    """Return the id this data has had since its first start; 22 characters, as Kafka writes
    UUIDs."""
    known = store.get(_CLUSTER_ID_PATH)
    if known is None:
        try:
            return _make_cluster_id(store, configured)
        except VersionConflict:
            known = store.get(_CLUSTER_ID_PATH)
    if known is not None:
        stored = known.data.decode()
        if configured is not None and configured != stored:
            raise ConfigError(f"cluster.id is {configured}, and this data belongs to {stored}")
        return stored
    raise StorageError("the cluster's id came and went: start again")


def _make_cluster_id(store: ClusterStore, configured: str | None) -> str:
    cluster_id = configured or uuid_text(random_uuid())
    store.put(_CLUSTER_ID_PATH, cluster_id.encode(), None)
    return cluster_id
