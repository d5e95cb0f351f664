"""Starting and stopping a broker.

Order matters. Starting: the lock, the cluster's state, the addresses (a port in use must be known
before a long recovery), the logs, recovering after a crash, and only then the first connection; so
whoever is let in is served. The admin port answers all the while: alive, but not ready. Stopping is
the same backwards: no new requests, answer what was asked, end background work, and at last the
logs, which are flushed and marked clean. A start that fails undoes what it had done.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace

import structlog

from headrace.broker.auth.authentication import Authentication
from headrace.broker.broker import Broker
from headrace.broker.config.listener import Listener
from headrace.broker.config.settings import BrokerSettings
from headrace.broker.dispatch import Dispatch
from headrace.broker.handlers.registry import SERVED, load_all
from headrace.broker.membership.member import ClusterMember
from headrace.broker.metric import load_prometheus
from headrace.broker.network.acceptor import Acceptor
from headrace.broker.network.connection_limits import ConnectionLimits
from headrace.broker.network.descriptor import raise_limit
from headrace.broker.network.poller import Poller
from headrace.broker.operation.admin_http import AdminHttp
from headrace.broker.operation.compaction_worker import CompactionWorker
from headrace.broker.operation.gauge import gauges
from headrace.broker.operation.maintenance import Chore, Maintenance
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

log = structlog.get_logger(__name__)

_CLUSTER_DIRECTORY = "cluster"
_CLUSTER_ID_PATH = "/cluster/id"
_DRAIN_SECONDS = 5.0
_LOOPBACK = "127.0.0.1"
_STORE_TRIES = 60
_STORE_REST_SECONDS = 0.5


class Server:
    """One running broker. `await Server.start(settings)`, then `await server.stop()`."""

    def __init__(self, settings: BrokerSettings, clock: Clock) -> None:
        """Use `start`."""
        raise_limit()
        self._settings = settings
        self._clock = clock
        self._disk = Disk()
        self._authentication = Authentication(settings, clock)
        self._ready = False
        self._open_shared: Callable[[], ClusterStore] | None = None
        self._member: ClusterMember | None = None
        self.listeners: tuple[Listener, ...] = ()
        self.admin_port: int | None = None

    @classmethod
    async def start(
        cls,
        settings: BrokerSettings,
        clock: Clock | None = None,
        open_store: Callable[[], ClusterStore] | None = None,
    ) -> "Server":
        """Open everything, recover what a crash left, and listen.

        Args:
            open_store: connects to the store this broker shares with others; one alone has its own.

        Raises:
            ConfigError: an address that cannot be listened on.
            LogDirectoryLocked: another process uses the data.
            StorageError: a directory that cannot be used, or records that are damaged.
        """
        server = cls(settings, SystemClock() if clock is None else clock)
        server._open_shared = open_store
        await server._start()
        return server

    async def _start(self) -> None:
        async with AsyncExitStack() as undo:
            controller = await self._open_store(undo)
            self.broker.follow_all()
            self._files = FilePool(self._disk)
            self.acceptor = self._make_acceptor()
            self.broker.call_after_event = self.acceptor.poller.call_after_event
            undo.push_async_callback(self.acceptor.stop, 0)
            self._listen()
            await self._start_admin(undo)
            await self.broker.loop.run_in_executor(None, self._open_logs, controller)
            await self._announce(controller)
            self._start_chores(undo)
            self._undo = undo.pop_all()
        self.acceptor.start()
        self._ready = True
        self.broker.threads.submit(_load_the_rest)

    async def _open_store(self, undo: AsyncExitStack) -> Controller:
        """The lock, the cluster's state, and the broker on top of them."""
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
        loop = asyncio.get_running_loop()
        if self._open_shared is None:
            store: ClusterStore = LocalStore.open(self._disk, home)
            undo.callback(store.close)
        else:
            store = await loop.run_in_executor(None, self._open_shared)
            undo.push_async_callback(loop.run_in_executor, None, store.close)
        self._store = store
        controller = await loop.run_in_executor(None, Controller, store)
        self.broker = Broker(
            self._settings,
            self._clock,
            loop,
            store,
            controller,
            await loop.run_in_executor(None, _cluster_id, store, self._settings["cluster.id"]),
            self._authentication,
        )
        undo.push_async_callback(self._close_broker)
        return controller

    def _make_acceptor(self) -> Acceptor:
        broker = self.broker
        broker.served_apis = SERVED
        return Acceptor(
            Poller(broker.loop),
            self._connection_limits(),
            dispatch=Dispatch(broker),
            tls=broker.way.tls,
        )

    def _connection_limits(self) -> ConnectionLimits:
        return ConnectionLimits.of(self._settings, file_capacity=self._files.capacity)

    def _listen(self) -> None:
        self.listeners = tuple(self.acceptor.bind(each) for each in self._settings.listeners)
        told = dict(self._settings.told)
        for listener in self.listeners:
            if told[listener.name].port == 0:
                told[listener.name] = replace(told[listener.name], port=listener.port)
            if told[listener.name].wildcard:
                log.warning(
                    "clients on other machines are told an address of this machine only: "
                    "set advertised.listeners",
                    listener=str(listener),
                )
                told[listener.name] = replace(told[listener.name], host=_LOOPBACK)
        self.broker.advertised = told

    def _open_logs(self, controller: Controller) -> None:
        """Runs in a thread, so that the admin port answers during a long recovery."""
        indexes = IndexCache()

        def own_configs(topic: str) -> dict[str, str]:
            record = controller.state.topics.get(topic)
            return {} if record is None else dict(record.configs)

        for path in self._settings.log_dirs:
            self.broker.storage.directories.append(
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

    async def _announce(self, controller: Controller) -> None:
        broker = self.broker
        endpoints = tuple(
            Endpoint(each.name, each.host, each.port, each.protocol)
            for each in broker.advertised.values()
        )
        record = BrokerRecord(
            broker_id=broker.node_id,
            endpoints=endpoints,
            rack=self._settings.rack,
            home=str(broker.storage.directories[0].meta.directory_id),
        )
        if self._open_shared is None:
            await broker.administer(lambda each: each.register(record))
        else:
            broker.members.update(controller.state.brokers)
            self._member = ClusterMember(broker, self._store, record)
            await broker.delete_strays()
            await self._member.join()
        await self._patiently(
            lambda: broker.administer(
                lambda each: each.finalize_default_features(), broker.follow_features
            )
        )
        login = broker.way.login
        if self._open_shared is not None and login is not None:
            await self._patiently(
                lambda: broker.administer(login.ensure_known, broker.follow_credentials)
            )
        await self._patiently(broker.claim_producer_ids)
        await broker.restore_topics()

    async def _patiently(self, step: Callable[[], Awaitable[None]]) -> None:
        """A store that others share may be away for a moment; one's own does not come back."""
        tries = 1 if self._open_shared is None else _STORE_TRIES
        for attempt in range(1, tries + 1):
            try:
                return await step()
            except (StorageError, VersionConflict) as error:
                if attempt == tries:
                    raise
                log.warning("the cluster's store does not answer yet", reason=str(error))
                await asyncio.sleep(_STORE_REST_SECONDS)
        return None

    def _start_chores(self, undo: AsyncExitStack) -> None:
        settings, broker = self._settings, self.broker
        compaction = CompactionWorker(
            broker.storage.directories,
            self._clock,
            memory_bytes=settings["log.cleaner.dedupe.buffer.size"],
            bytes_per_second=settings["log.cleaner.io.max.bytes.per.second"],
        )
        broker.storage.uncompacted = compaction.deleting
        chores = [
            Chore("retention", settings["log.retention.check.interval.ms"], self._keep_retention),
            Chore("flush", settings["log.flush.scheduler.interval.ms"], self._sync_due),
            Chore(
                "checkpoint", settings["log.flush.offset.checkpoint.interval.ms"], self._checkpoint
            ),
            Chore(
                "offset expiry",
                settings["offsets.retention.check.interval.ms"],
                lambda: broker.loop.call_soon_threadsafe(broker.groups.expire),
            ),
        ]
        if settings["log.cleaner.enable"]:
            rest_ms = settings["log.cleaner.backoff.ms"]
            chores.append(Chore("compaction", rest_ms, compaction.run))
        maintenance = Maintenance()
        undo.push_async_callback(maintenance.stop)
        undo.callback(compaction.stop)
        maintenance.start(chores)
        broker.settings_followers.append(lambda: self._follow_settings(compaction))

    def _follow_settings(self, compaction: CompactionWorker) -> None:
        """What was handed on at the start and may change while the broker runs (KIP-226)."""
        settings = self._settings
        self.acceptor.apply_limits(self._connection_limits())
        compaction.configure(
            memory_bytes=settings["log.cleaner.dedupe.buffer.size"],
            bytes_per_second=settings["log.cleaner.io.max.bytes.per.second"],
        )

    def _keep_retention(self) -> None:
        expiration_ms = self._settings["producer.id.expiration.ms"]
        for directory in self._online():
            directory.maintain(producer_expiration_ms=expiration_ms)

    def _sync_due(self) -> None:
        for directory in self._online():
            directory.sync_due()

    def _checkpoint(self) -> None:
        for directory in self._online():
            directory.checkpoint()

    def _online(self) -> list[LogDirectory]:
        return [each for each in self.broker.storage.directories if each.offline is None]

    async def _start_admin(self, undo: AsyncExitStack) -> None:
        broker = self.broker
        for reading in gauges(broker, self.acceptor):
            broker.metrics.add(reading)
        address = self._settings.admin_address
        if address is None:
            return
        admin = AdminHttp(
            ready=lambda: self._ready, problems=broker.problems, metrics=broker.metrics.render
        )
        undo.push_async_callback(admin.stop)
        try:
            self.admin_port = await admin.start(*address)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {address[0]}:{address[1]} for administration: "
                f"{error.strerror or error}"
            ) from error

    async def stop(self) -> None:
        """Drain, flush, mark clean. Call it once."""
        self._ready = False
        if self._member is not None:
            await self._member.leave()
        self.acceptor.stop_accepting()
        # Requests parked in a rebalance or a long poll are answered now: nothing will come for
        # them any more, and they would use up the time to drain.
        self.broker.groups.stop()
        for partition in self.broker.topics.partitions():
            partition.release_all()
        await self.acceptor.stop(_DRAIN_SECONDS)
        await self._undo.aclose()

    async def _close_broker(self) -> None:
        broker = self.broker
        broker.groups.stop()
        broker.transactions.stop()
        broker.group_commit.close()
        for directory in broker.storage.directories:
            await broker.loop.run_in_executor(None, directory.close)
        broker.shut_down()


def _load_the_rest() -> None:
    """What was left out to start fast, before somebody has to wait for it."""
    load_all()
    load_prometheus()


def _cluster_id(store: ClusterStore, wanted: str | None) -> str:
    """The id this data has had since its first start; 22 characters, as Kafka writes UUIDs."""
    known = store.get(_CLUSTER_ID_PATH)
    if known is None:
        try:
            return _make_cluster_id(store, wanted)
        except VersionConflict:
            known = store.get(_CLUSTER_ID_PATH)
    if known is not None:
        found = known.data.decode()
        if wanted is not None and wanted != found:
            raise ConfigError(f"cluster.id is {wanted}, and this data belongs to {found}")
        return found
    raise StorageError("the cluster's id came and went: start again")


def _make_cluster_id(store: ClusterStore, wanted: str | None) -> str:
    made = wanted or uuid_text(random_uuid())
    store.put(_CLUSTER_ID_PATH, made.encode(), None)
    return made
