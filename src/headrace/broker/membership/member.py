"""This broker as one of several: it registers, hears of changes, and is the controller if it must.

Rule 1: it hears before it looks: watches are set, then everything is read, so nothing is missed.
Rule 2: word of a change only says where to look. All looking and deciding is the controller's, in
its thread, one at a time (`Broker.administer`), and everything that changed is followed on the
loop.
Rule 3: when its session with the store ends it goes on leading what it led: it can commit nothing
without the replicas that are in sync, and they follow whoever the store says leads. Where those do
not come any more either it sends its clients away (`Partition`, rule 4). When the store
can be reached again it looks whether its registration is still there. If not, it hands over what it
led as if it had crashed, and registers with a new broker epoch. It does the same whenever it sees
that its registration is gone, however that came about.
Rule 4: it leaves before it stops: leaders move first, so that clients find the next ones at once.
Rule 5: a broker whose process is gone (its machine refuses connections) is taken out of sync, and
what it led is led by others, by whoever sees that first. Its session may last for seconds more. If
it is there after all it has lost nothing but its place: it follows, and comes back into sync.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import structlog

from headrace.broker.membership.isr import IsrManager
from headrace.cluster.broker import BrokerRecord
from headrace.cluster.controller import Controller
from headrace.cluster.entity import KINDS
from headrace.cluster.store import ClusterStore, Node
from headrace.cluster.term import CONTROLLER_PATH, TERM_KIND
from headrace.model.error import BrokerIdTaken, HeadraceError, StorageError, VersionConflict
from headrace.model.ids import BrokerId, TopicPartition

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

log = structlog.get_logger(__name__)

_RETRY_SECONDS = 0.5
_JOIN_TRIES = 60


class ClusterMember:
    """Lives on the event loop; the store calls `_heard` and `_session` on a thread of its own."""

    def __init__(self, broker: "Broker", store: ClusterStore, record: BrokerRecord) -> None:
        self._broker = broker
        self._store = store
        self._record = record
        self._unheard: set[str] = set()
        self._catching_up: asyncio.Task[None] | None = None
        self._rejoining: asyncio.Task[None] | None = None
        self._preferring: asyncio.Task[None] | None = None
        self._watching_disks: asyncio.Task[None] | None = None
        self._epoch: int | None = None
        self._joined = False
        # Counts the ends of sessions: what began in an earlier one has joined nothing.
        self._sessions = 0
        self._stopping = False
        settings = broker.settings
        self._unclean = bool(settings["unclean.leader.election.enable"])
        self._isr = IsrManager(broker, settings["replica.lag.time.max.ms"], lambda: self._joined)
        broker.propose_isr = self._isr.propose
        broker.peer_gone = self._peer_gone
        self._replacing: set[asyncio.Task[None]] = set()

    async def join(self) -> None:
        """Register, and take part in choosing the controller.

        Raises:
            BrokerIdTaken: another broker runs under this id.
            StorageError: the store cannot be reached, for half a minute and more.
        """
        loop = self._broker.loop
        for kind in (*KINDS, TERM_KIND):
            await self._broker.in_thread(partial(self._store.watch, kind, self._heard))
        self._store.follow_session(lambda alive: _quietly(loop, lambda: self._session(alive=alive)))
        for attempt in range(_JOIN_TRIES):
            try:
                await self._register()
                break
            except (VersionConflict, BrokerIdTaken, StorageError) as error:
                # The registration of a broker that is gone lasts as long as its session did.
                if attempt == _JOIN_TRIES - 1:
                    raise
                log.warning("cannot join yet", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)
        self._preferring = loop.create_task(self._prefer_for_ever())
        self._watching_disks = loop.create_task(self._watch_disks())

    async def _register(self) -> bool:
        """Whether this broker is one of the cluster now: its session may have ended meanwhile."""

        def register(controller: Controller) -> BrokerId | None:
            controller.reload()
            known = controller.state.brokers.get(self._record.broker_id)
            if known is None or known.epoch != self._epoch:
                self._epoch = controller.join(self._record).epoch
            if controller.claim_term(self._record.broker_id):
                controller.settle(unclean_default=self._unclean)
            return controller.controller_id()

        session = self._sessions
        holder = await self._broker.administer(register)
        self._follow_controller(holder)
        self._joined = session == self._sessions
        if self._joined:
            self._isr.check()
        return self._joined

    def _follow_controller(self, holder: BrokerId | None) -> None:
        if holder is not None and holder != self._broker.controller_id:
            log.info("the controller", broker=holder)
        self._broker.controller_id = BrokerId(-1) if holder is None else holder

    # -- word from the store

    def _heard(self, path: str, node: Node | None) -> None:
        _quietly(self._broker.loop, lambda: self._note(path))

    def _note(self, path: str) -> None:
        self._unheard.add(path)
        if not self._joined or self._stopping:
            return
        if self._catching_up is None or self._catching_up.done():
            self._catching_up = self._broker.loop.create_task(self._catch_up())

    async def _catch_up(self) -> None:
        while self._unheard and not self._stopping:
            paths, self._unheard = self._unheard, set()
            try:
                holder = await self._broker.administer(partial(self._look, paths))
            except VersionConflict:
                # Another controller, or another change in between: look once more.
                self._unheard |= paths | {CONTROLLER_PATH}
                await asyncio.sleep(_RETRY_SECONDS)
            except StorageError as error:
                log.warning("a change could not be followed yet", reason=str(error))
                self._unheard |= paths
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception as error:
                # Whatever it was: a change that is forgotten is never heard of again.
                log.error("a change could not be followed", exc_info=error)
                self._unheard |= paths
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                if holder is not None or CONTROLLER_PATH in paths:
                    self._follow_controller(holder)
                self._check_registration()

    def _check_registration(self) -> None:
        """The end of a session may pass unnoticed, when another has begun at once."""
        if self._joined and self._broker.broker_epoch != self._epoch:
            log.error("this broker's registration is gone")
            self._joined = False
            self._start_rejoining()

    def _look(self, paths: set[str], controller: Controller) -> BrokerId | None:
        """In the controller's thread."""
        holder = None
        if any(path.startswith(f"/{TERM_KIND}/") for path in paths):
            controller.claim_term(self._record.broker_id)
            holder = controller.controller_id()
        controller.catch_up(path for path in paths if not path.startswith(f"/{TERM_KIND}/"))
        if controller.in_term:
            controller.settle(unclean_default=self._unclean)
        return holder

    # -- the session

    def _session(self, *, alive: bool) -> None:
        if self._stopping:
            return
        if not alive:
            log.error("the session with the cluster's store is over")
            self._joined = False
            self._sessions += 1
        else:
            self._start_rejoining()

    def _start_rejoining(self) -> None:
        if self._rejoining is None or self._rejoining.done():
            self._rejoining = self._broker.loop.create_task(self._rejoin())

    async def _rejoin(self) -> None:
        while not self._joined and not self._stopping:
            try:
                if await self._register():
                    break
            except HeadraceError as error:
                log.warning("cannot join again yet", reason=str(error))
            except Exception as error:
                log.error("cannot join again", exc_info=error)
            await asyncio.sleep(_RETRY_SECONDS)
        log.info("joined the cluster again")
        self._broker.fetchers.reconnect()
        self._broker.transaction_client.close()
        for path in list(self._unheard):
            self._note(path)

    # -- brokers that died

    def _peer_gone(self, record: BrokerRecord) -> None:
        if self._joined and not self._stopping:
            task = self._broker.loop.create_task(self._replace(record))
            self._replacing.add(task)
            task.add_done_callback(self._replacing.discard)

    async def _replace(self, record: BrokerRecord) -> None:
        log.warning("a broker is gone", broker=record.broker_id)
        try:
            await self._broker.administer(lambda controller: controller.replace_dead(record))
        except HeadraceError as error:
            # Its session will end.
            log.warning("a broker could not be replaced yet", reason=str(error))

    # -- preferred leaders

    async def _prefer_for_ever(self) -> None:
        settings = self._broker.settings
        while True:
            await asyncio.sleep(settings["leader.imbalance.check.interval.seconds"])
            if not settings["auto.leader.rebalance.enable"] or not self._joined:
                continue

            def prefer(controller: Controller) -> None:
                if controller.in_term:
                    controller.elect_leaders(None)

            try:
                await self._broker.administer(prefer)
            except HeadraceError as error:
                log.warning("preferred leaders could not be elected", reason=str(error))

    # -- disks

    async def _watch_disks(self) -> None:
        """A partition whose log directory failed, or is full, is led by others, who can."""
        while True:
            await asyncio.sleep(_RETRY_SECONDS)
            offline = self._broker.offline_partitions() if self._joined else []
            names = offline + (self._broker.full_partitions() if self._joined else [])
            if not names:
                continue
            for name in offline:
                self._broker.fetchers.leave(name)
            try:
                await self._broker.administer(
                    partial(self._abandon, broker_id=self._record.broker_id, names=names)
                )
            except HeadraceError as error:
                log.warning("partitions on a failed disk could not be left", reason=str(error))

    def _abandon(
        self, controller: Controller, *, broker_id: BrokerId, names: list[TopicPartition]
    ) -> None:
        controller.abandon(broker_id, names)

    # -- leaving

    async def leave(self) -> None:
        """Move leaders away and take this broker out of sync, where others can take over."""
        self._stopping = True
        tasks = [
            task
            for task in (
                self._catching_up,
                self._rejoining,
                self._preferring,
                self._watching_disks,
                *self._replacing,
            )
            if task is not None
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._broker.fetchers.stop()
        await self._isr.stop()
        if not self._joined or not self._broker.settings["controlled.shutdown.enable"]:
            return
        try:
            await self._broker.administer(lambda each: each.leave(self._record.broker_id))
        except HeadraceError as error:
            log.warning("leaders could not be moved before stopping", reason=str(error))


def _quietly(loop: asyncio.AbstractEventLoop, work: Callable[[], None]) -> None:
    """Hand over to the loop; the store's thread may outlive it by a moment."""
    try:
        loop.call_soon_threadsafe(work)
    except RuntimeError:
        return
