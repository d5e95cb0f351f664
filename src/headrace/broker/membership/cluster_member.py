"""This broker as one of several: it registers, applies changes, and is the controller when elected.

Rule 1: watches are set first, then everything is read, so that no change is missed.
Rule 2: a watch event only names the changed path. The controller's thread reads it again and
decides, one command at a time (`ControllerClient`), and what changed is applied on the loop.
Rule 3: when its session with the store ends it continues to lead what it led: it can commit nothing
without the replicas that are in sync, and they follow the leader that the store names. Where those
do not fetch any more either, it rejects its clients' writes (`Partition`, rule 4). When the store
can be reached again it reads whether its registration is still there. If not, it hands over what it
led as if it had crashed, and registers with a new broker epoch. It does the same whenever it sees
that its registration is gone, for whatever reason. Until then it begins to lead nothing: a leader
of its id in the store may be another process. If one is registered, it resigns everything.
Rule 4: it leaves before it stops: leaders move first, so that clients find the next ones at once.
Rule 5: a broker whose process is gone (its machine refuses connections) is removed from the in-sync
replicas, and others lead what it led: its session may last for seconds more. Two brokers must have
noticed, or one and the broker itself does not deny it (`suspicions`). The controller does it, and
the others only if it does not (`takeover`). If the broker runs after all, it has
lost its leaderships only: it follows, and comes back into sync.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from uuid import uuid4

import structlog

from headrace.broker.membership.isr_manager import IsrManager
from headrace.broker.membership.member_host import MemberHost
from headrace.broker.membership.suspicions import Suspicions
from headrace.broker.membership.takeover import takeover_seconds
from headrace.broker.network.loop_call import call_on
from headrace.broker.replica.directory_id import directory_ids, home_of, renew_ids
from headrace.broker.replica.partition import Partition
from headrace.cluster.broker import BrokerRecord
from headrace.cluster.controller import Controller
from headrace.cluster.entity import KINDS
from headrace.cluster.store import ClusterStore, Node
from headrace.cluster.term import CONTROLLER_PATH, TERM_KIND
from headrace.model.error import BrokerIdTaken, HeadraceError, StorageError, VersionConflict
from headrace.model.ids import BrokerId, TopicPartition

log = structlog.get_logger(__name__)

_RETRY_SECONDS = 0.5
_TAKEN_RETRY_SECONDS = 5
_JOIN_TRIES = 60
_STORE_TRIES = 60


class ClusterMember:
    """A `Membership` in a cluster that shares a store with sessions, as ZooKeeper has them.

    Thread rule: lives on the event loop; the store calls `_on_watch_event` and the session callback
    on a thread of its own.
    """

    def __init__(self, host: MemberHost, store: ClusterStore) -> None:
        self.controller_id = host.settings.node_id
        self.stranded = False
        self.joined = False
        self._host = host
        self._store = store
        self._node_id = host.settings.node_id
        self._record: BrokerRecord | None = None
        self._changed_paths: set[str] = set()
        self._catching_up: asyncio.Task[None] | None = None
        self._rejoining: asyncio.Task[None] | None = None
        self._preferring: asyncio.Task[None] | None = None
        self._watching_disks: asyncio.Task[None] | None = None
        self._epoch: int | None = None
        # Another process has taken the id, and the directories still have the ids they had.
        self._has_old_ids = False
        # Counts the ends of sessions: a registration that began in an earlier one is void.
        self._sessions = 0
        self._stopping = False
        self._isr = IsrManager(host, self)
        self._suspicion_thread = ThreadPoolExecutor(1, thread_name_prefix="suspicion")
        self._suspicions = Suspicions(host, store, self._suspicion_thread)
        # By broker and epoch.
        self._replacing: dict[tuple[BrokerId, int], asyncio.Task[None]] = {}

    @property
    def session_ends(self) -> int:
        """How many sessions with the store have ended."""
        return self._sessions

    async def join(self, record: BrokerRecord) -> None:
        """Register, and take part in the election of the controller.

        Raises:
            BrokerIdTaken: another broker runs under this id.
            StorageError: the store cannot be reached, for half a minute and more.
        """
        self._record = replace(record, process=uuid4().hex)
        self._host.roles.registered = False
        self._isr.start()
        self._host.applier.apply_members()
        await self._host.applier.prepare_logs()
        loop = self._host.loop
        for kind in (*KINDS, TERM_KIND):
            await self._host.in_thread(partial(self._store.watch, kind, self._on_watch_event))
        await self._suspicions.watch()
        self._store.watch_session(
            lambda alive: call_on(loop, lambda: self._on_session(alive=alive))
        )
        for attempt in range(_JOIN_TRIES):
            try:
                await self._register()
                break
            except (VersionConflict, BrokerIdTaken, StorageError) as error:
                # The registration of a broker that has ended lasts as long as its session.
                if attempt == _JOIN_TRIES - 1:
                    raise
                log.warning("join_failed", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
        self._preferring = loop.create_task(self._elect_preferred_for_ever())
        self._watching_disks = loop.create_task(self._watch_disks())

    async def _register(self) -> bool:
        """Return whether this broker is registered now: its session may have ended meanwhile."""
        record = self._record
        assert record is not None

        def register(controller: Controller) -> BrokerId | None:
            controller.reload()
            known = controller.state.brokers.get(self._node_id)
            if known is None or known.epoch != self._epoch:
                self._check_displaced(known)
                joined = controller.join(record, partial(self._directories, controller, record))
                self._host.roles.epoch = self._epoch = joined.epoch
            self._host.roles.registered, self._host.roles.displaced = True, False
            if controller.claim_term(self._node_id):
                controller.settle(unclean_default=self._unclean_default(controller))
            return controller.controller_id()

        session = self._sessions
        holder = await self._host.controller.administer(register)
        self._set_controller(holder)
        self.joined = self._host.roles.registered = session == self._sessions
        if self.joined:
            self._host.applier.topics.registered()
            self._isr.check()
            self._suspicions.registered()
            # What has changed since everything was read, and waited for the registration.
            for path in list(self._changed_paths):
                self._add_changed_path(path)
        return self.joined

    def _directories(
        self, controller: Controller, record: BrokerRecord, known: frozenset[str]
    ) -> tuple[str, ...]:
        """Return the log directories to register: those that are here.

        While logs are missing (`MissingLogs`), also those that are not here, so that the next
        start does the same; and none that holds an older log in their place, which could not be
        renamed. In the controller's thread.

        Args:
            known: those that were registered last.
        """
        storage, lost = self._host.storage, known.difference(record.directories)
        if lost:
            missing = storage.note_missing(controller.state.topics, known)
            controller.drop_from_isr(self._node_id, missing)
            # Again: what is left are logs of which no other replica is in sync.
            storage.note_missing(controller.state.topics, known)
            storage.missing.report()
            storage.set_missing_aside()
        if not storage.missing:
            return record.directories
        return tuple(sorted(lost.union(record.directories) - storage.untrusted_ids()))

    def _check_displaced(self, known: BrokerRecord | None) -> None:
        """Check that no other process has registered under this id since this one did: not even
        one with a copy of its data, which looks like an earlier process of this broker."""
        assert self._record is not None
        if known is None or self._epoch is None or known.process in (None, self._record.process):
            return
        if known.epoch > self._epoch:
            raise BrokerIdTaken(
                f"another process has registered as broker {self._node_id}: stop one of the two"
            )

    def _set_controller(self, holder: BrokerId | None) -> None:
        if holder is not None and holder != self.controller_id:
            log.info("controller_elected", broker=holder)
        self.controller_id = BrokerId(-1) if holder is None else holder

    def set_stranded(self, stranded: bool) -> None:
        """Note whether a partition is stranded; `IsrManager` calls it."""
        self.stranded = stranded

    def propose_isr(self, partition: Partition, isr: frozenset[BrokerId]) -> None:
        self._isr.propose(partition, isr)

    async def with_retries(self, step: Callable[[], Awaitable[None]]) -> None:
        """Repeat the step: a store that others share may be unreachable for a moment."""
        for attempt in range(1, _STORE_TRIES + 1):
            try:
                return await step()
            except (StorageError, VersionConflict) as error:
                if attempt == _STORE_TRIES:
                    raise
                log.warning("store_not_reached", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
        return None

    # -- watch events

    def _on_watch_event(self, path: str, node: Node | None) -> None:
        call_on(self._host.loop, lambda: self._add_changed_path(path))

    def _add_changed_path(self, path: str) -> None:
        self._changed_paths.add(path)
        if not self.joined or self._stopping:
            return
        if self._catching_up is None or self._catching_up.done():
            self._catching_up = self._host.loop.create_task(self._catch_up())

    async def _catch_up(self) -> None:
        while self._changed_paths and not self._stopping:
            paths, self._changed_paths = self._changed_paths, set()
            try:
                holder = await self._host.controller.administer(partial(self._read_paths, paths))
            except VersionConflict:
                # Another controller was elected, or another change came in between: read again.
                self._changed_paths |= paths | {CONTROLLER_PATH}
                await asyncio.sleep(_RETRY_SECONDS)
            except StorageError as error:
                log.warning("change_not_applied", reason=str(error))
                self._changed_paths |= paths
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception as error:
                # Whatever it was: no other watch event comes for this change.
                log.error("change_not_applied", exc_info=error)
                self._changed_paths |= paths
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                if holder is not None or CONTROLLER_PATH in paths:
                    self._set_controller(holder)
                self._check_registration()

    def _check_registration(self) -> None:
        """Join again if the registration is gone: the end of a session may pass unnoticed, when
        another has begun at once."""
        known = self._host.members.get(self._node_id)
        if self.joined and (known is None or known.epoch != self._epoch):
            log.error("registration_lost")
            self._set_unregistered()
            self._start_rejoining()

    def _read_paths(self, paths: set[str], controller: Controller) -> BrokerId | None:
        """Read the changed paths again, in the controller's thread, and return the controller if
        the election was among them."""
        holder = None
        if any(path.startswith(f"/{TERM_KIND}/") for path in paths):
            controller.claim_term(self._node_id)
            holder = controller.controller_id()
        controller.catch_up(path for path in paths if not path.startswith(f"/{TERM_KIND}/"))
        if controller.in_term:
            controller.settle(unclean_default=self._unclean_default(controller))
        return holder

    def _unclean_default(self, controller: Controller) -> bool:
        """Return unclean.leader.election.enable for topics that do not set it, in the controller's
        thread: this broker applies a change only after the command that read it."""
        dynamic = controller.state.dynamic_configs(self._node_id)
        return bool(self._host.settings.with_dynamic(dynamic)["unclean.leader.election.enable"])

    # -- the session

    def _on_session(self, *, alive: bool) -> None:
        if self._stopping:
            return
        if not alive:
            log.error("session_lost")
            self._set_unregistered()
            self._sessions += 1
        else:
            self._start_rejoining()

    def _set_unregistered(self) -> None:
        self.joined = False
        self._host.roles.registered = False

    def _start_rejoining(self) -> None:
        if self._rejoining is None or self._rejoining.done():
            self._rejoining = self._host.loop.create_task(self._rejoin())

    async def _rejoin(self) -> None:
        while not self.joined and not self._stopping:
            try:
                if await self._renewed_ids() and await self._register():
                    break
            except BrokerIdTaken as error:
                await self._resign(error)
                await asyncio.sleep(_TAKEN_RETRY_SECONDS)
                continue
            except HeadraceError as error:
                log.warning("rejoin_failed", reason=str(error))
            except Exception as error:
                log.error("rejoin_failed", exc_info=error)
            await asyncio.sleep(_RETRY_SECONDS)
        log.info("rejoined")
        self._host.fetchers.reconnect()
        self._host.transaction_client.close()

    async def _resign(self, error: BrokerIdTaken) -> None:
        """Lead and follow nothing: another process has this broker's id (`ReplicaRoles`, rule
        4). It goes on when that one is gone."""
        log.error("broker_displaced", reason=str(error))
        if self._host.roles.displaced:
            return
        self._host.roles.displaced = self._has_old_ids = True
        await self._host.applier.topics.resign_all()
        await self._renewed_ids()

    async def _renewed_ids(self) -> bool:
        """Give the directories of a displaced broker new ids, if they have not got them yet; return
        whether they have.

        Their logs are old from now on. The other process may have a copy of the directories: they
        must not be taken for those that were registered last, not even after a restart.
        """
        if self._has_old_ids:
            directories = self._host.storage.online
            self._has_old_ids = not await self._host.in_thread(partial(renew_ids, directories))
            assert self._record is not None
            home, ids = home_of(self._host.storage.directories), directory_ids(directories)
            self._record = replace(self._record, home=home, directories=ids)
        return not self._has_old_ids

    # -- brokers whose process ended

    def broker_gone(self, record: BrokerRecord) -> None:
        ended = (record.broker_id, record.epoch)
        if self.joined and not self._stopping and ended not in self._replacing:
            task = self._replacing[ended] = self._host.loop.create_task(self._replace(record))
            task.add_done_callback(lambda _: self._replacing.pop(ended, None))

    async def _replace(self, record: BrokerRecord) -> None:
        if not await self._suspicions.confirmed(record):
            return
        log.warning("broker_gone", broker=record.broker_id)
        await asyncio.sleep(
            takeover_seconds(
                self._node_id,
                record.broker_id,
                controller=self.controller_id,
                members=self._host.members.keys(),
            )
        )
        try:
            await self._host.controller.administer(
                lambda controller: controller.remove_ended_broker(record)
            )
        except HeadraceError as error:
            # The others replace it when its session ends.
            log.warning("broker_not_replaced", reason=str(error))

    # -- preferred leaders

    async def _elect_preferred_for_ever(self) -> None:
        settings = self._host.settings
        while True:
            await asyncio.sleep(settings["leader.imbalance.check.interval.seconds"])
            if not settings["auto.leader.rebalance.enable"] or not self.joined:
                continue

            def prefer(controller: Controller) -> None:
                if controller.in_term:
                    controller.elect_leaders(None)

            try:
                await self._host.controller.administer(prefer)
            except HeadraceError as error:
                log.warning("preferred_leaders_not_elected", reason=str(error))

    # -- disks

    async def _watch_disks(self) -> None:
        """Let other brokers lead the partitions whose log directory failed here, or is full."""
        while True:
            await asyncio.sleep(_RETRY_SECONDS)
            offline = self._host.roles.offline_partitions() if self.joined else []
            names = offline + (self._host.roles.full_partitions() if self.joined else [])
            if not names:
                continue
            for name in offline:
                self._host.fetchers.leave(name)
            try:
                await self._host.controller.administer(
                    partial(self._abandon, broker_id=self._node_id, names=names)
                )
            except HeadraceError as error:
                log.warning("offline_partitions_not_left", reason=str(error))

    def _abandon(
        self, controller: Controller, *, broker_id: BrokerId, names: list[TopicPartition]
    ) -> None:
        controller.abandon(broker_id, names)

    # -- leaving

    async def leave(self) -> None:
        """Move leaders away and remove this broker from the in-sync replicas, where others can take
        over."""
        self._stopping = True
        tasks = [
            task
            for task in (
                self._catching_up,
                self._rejoining,
                self._preferring,
                self._watching_disks,
                *self._replacing.values(),
            )
            if task is not None
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._host.fetchers.stop()
        await self._isr.stop()
        await self._suspicions.stop()
        self._suspicion_thread.shutdown(wait=False)
        if not self.joined or not self._host.settings["controlled.shutdown.enable"]:
            return
        try:
            await self._host.controller.administer(lambda each: each.leave(self._node_id))
        except HeadraceError as error:
            log.warning("leaders_not_moved", reason=str(error))
