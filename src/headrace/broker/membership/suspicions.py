"""Whether a broker whose machine refuses connections has really ended.

Theory of operation
-------------------
A killed process is noticed at once by the brokers that copy from it: its machine refuses their
connections. Its session with the store lasts for seconds more. One refused broker proves little:
a firewall between the two refuses as well. So the broker reports a *suspicion*, a node in the store
that the suspect deletes if it runs:

    /suspects/<suspect>,<its broker epoch>,<reporter>

Rule 1: a suspicion is confirmed as soon as another broker reports the same one, or when the
suspect has not denied it within `ANSWER_SECONDS`.
Rule 2: a broker denies every suspicion of its present epoch, at once, whatever else it does: not in
the controller's thread, which may be busy.
Rule 3: nothing is confirmed while the store cannot be reached: the suspect may not reach it either,
and cannot deny it.
"""

import asyncio
from contextlib import suppress
from functools import partial

import structlog

from headrace.broker.membership.member_host import MemberHost
from headrace.cluster.broker import BrokerRecord
from headrace.cluster.store import ClusterStore, CreateNode, DeleteNode, Node, node_path, path_parts
from headrace.model.error import StorageError, VersionConflict
from headrace.model.ids import BrokerId

log = structlog.get_logger(__name__)

SUSPECT_KIND = "suspects"
ANSWER_SECONDS = 0.5

_Suspect = tuple[BrokerId, int]


class Suspicions:
    """Reports brokers that seem to have ended, and denies what others report of this one.

    Threads: event loop; the store calls `_on_watch_event` on a thread of its own.
    """

    def __init__(
        self, host: MemberHost, store: ClusterStore, *, answer_seconds: float = ANSWER_SECONDS
    ) -> None:
        self._host = host
        self._store = store
        self._node_id = host.settings.node_id
        self._answer_seconds = answer_seconds
        self._open: dict[_Suspect, asyncio.Future[bool]] = {}
        # Tasks are only weakly held by the loop.
        self._withdrawing: set[asyncio.Task[None]] = set()

    async def watch(self) -> None:
        """Hear of suspicions from now on."""
        watch = partial(self._store.watch, SUSPECT_KIND, self._on_watch_event)
        await self._host.in_thread(watch)

    async def confirmed(self, record: BrokerRecord) -> bool:
        """Report that a broker's machine refuses connections, and return whether it has ended."""
        suspect = (record.broker_id, record.epoch)
        if suspect in self._open:
            return False
        path = _path(suspect, self._node_id)
        answer = self._open[suspect] = self._host.loop.create_future()
        try:
            nodes = await self._host.in_thread(partial(self._report, path))
            reports = [each.path for each in nodes if _suspect_of(each.path) == suspect]
            if any(_reporter_of(each) != self._node_id for each in reports):
                return True
            if path not in reports:
                return False
            return await self._answered(answer, path)
        except StorageError as error:
            log.warning("suspicion_not_reported", broker=record.broker_id, reason=str(error))
            return False
        finally:
            del self._open[suspect]
            self._begin_withdrawing(path)

    async def _answered(self, answer: "asyncio.Future[bool]", path: str) -> bool:
        try:
            return await asyncio.wait_for(answer, self._answer_seconds)
        except TimeoutError:
            # A node that came and went at once may cause no watch event.
            denied = await self._host.in_thread(partial(self._store.get, path)) is None
            return not denied

    def _report(self, path: str) -> list[Node]:
        with suppress(VersionConflict):
            self._store.commit([CreateNode(path, b"", ephemeral=True)])
        return self._store.scan(SUSPECT_KIND)

    def _begin_withdrawing(self, path: str) -> None:
        task = self._host.loop.create_task(self._withdraw(path))
        self._withdrawing.add(task)
        task.add_done_callback(self._withdrawing.discard)

    async def _withdraw(self, path: str) -> None:
        """Delete a suspicion; another broker may have done so already."""
        with suppress(VersionConflict, StorageError):
            await self._host.in_thread(partial(self._store.commit, [DeleteNode(path)]))

    # -- watch events

    def _on_watch_event(self, path: str, node: Node | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: the broker has stopped
            self._host.loop.call_soon_threadsafe(self._apply, path, node is not None)

    def _apply(self, path: str, reported: bool) -> None:
        suspect, reporter = _suspect_of(path), _reporter_of(path)
        if suspect == (self._node_id, self._host.broker_epoch):
            if reported:
                log.warning("suspicion_denied", reporter=reporter)
                self._begin_withdrawing(path)
            return
        answer = self._open.get(suspect)
        if answer is None or answer.done():
            return
        if reporter == self._node_id and not reported:
            answer.set_result(False)
        elif reporter != self._node_id and reported:
            answer.set_result(True)


def _path(suspect: _Suspect, reporter: BrokerId) -> str:
    return node_path(SUSPECT_KIND, *map(str, (*suspect, reporter)))


def _suspect_of(path: str) -> _Suspect:
    broker_id, epoch, _ = path_parts(path)
    return BrokerId(int(broker_id)), int(epoch)


def _reporter_of(path: str) -> BrokerId:
    return BrokerId(int(path_parts(path)[2]))
