"""Whether a broker whose machine refuses connections has really ended.

Theory of operation
-------------------
A killed process is noticed at once by the brokers that copy from it: its machine refuses their
connections. Its session with the store lasts for seconds more. One refused broker proves little:
a firewall between the two refuses as well. So the broker reports a *suspicion*, a node in the store
that the suspect deletes if it runs:

    /suspects/<suspect>,<its broker epoch>,<reporter>,<token>

Rule 1: a suspicion is confirmed as soon as another broker reports the same one, or when the
suspect has not denied it within `ANSWER_SECONDS`.
Rule 2: a broker denies every suspicion of its present epoch, at once, whatever else it does: in a
thread of its own, since all others may be busy.
Rule 3: nothing is confirmed while the store cannot be reached: the suspect may not reach it either,
and cannot deny it.
Rule 4: every report is a node of its own, so that the suspect hears of each (token). Reporter and
suspect delete it again and again until it is gone: one that stayed would count against a broker
that runs, the next time that any broker is refused. Until then its reporter reports nothing more.
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import structlog

from headrace.broker.membership.member_host import MemberHost
from headrace.cluster.broker import BrokerRecord
from headrace.cluster.store import ClusterStore, CreateNode, DeleteNode, Node, node_path, path_parts
from headrace.model.error import StorageError, VersionConflict
from headrace.model.ids import BrokerId

log = structlog.get_logger(__name__)

SUSPECT_KIND = "suspects"
ANSWER_SECONDS = 0.5
_RETRY_SECONDS = 0.1

_Suspect = tuple[BrokerId, int]
Result = TypeVar("Result")


class Suspicions:
    """Reports brokers that seem to have ended, and denies what others report of this one.

    Threads: event loop; the store calls `_on_watch_event` on a thread of its own.

    Args:
        thread: where the store is called, and nothing else runs.
    """

    def __init__(
        self,
        host: MemberHost,
        store: ClusterStore,
        thread: Executor,
        *,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._host = host
        self._store = store
        self._thread = thread
        self._node_id = host.settings.node_id
        self._answer_seconds = answer_seconds
        self._open: dict[_Suspect, asyncio.Future[bool]] = {}
        # By path: what is being deleted (rule 4), and the scan after a registration.
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def watch(self) -> None:
        """Hear of suspicions from now on."""
        watch = partial(self._store.watch, SUSPECT_KIND, self._on_watch_event)
        await self._in_thread(watch)

    def registered(self) -> None:
        """Deny what was reported of this broker's epoch before it knew that epoch itself."""
        self._begin(f"/{SUSPECT_KIND}", self._deny_all())

    async def stop(self) -> None:
        """Forget what is not withdrawn yet: it ends with this broker's session."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def confirmed(self, record: BrokerRecord) -> bool:
        """Report that a broker's machine refuses connections, and return whether it has ended."""
        suspect = (record.broker_id, record.epoch)
        if suspect in self._open or self._is_withdrawing(suspect):
            return False
        path = _path(suspect, self._node_id, secrets.token_hex(8))
        answer = self._open[suspect] = self._host.loop.create_future()
        try:
            nodes = await self._in_thread(partial(self._report, path))
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
            denied = await self._in_thread(partial(self._store.get, path)) is None
            return not denied

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await self._host.loop.run_in_executor(self._thread, work)

    def _report(self, path: str) -> list[Node]:
        with suppress(VersionConflict):
            self._store.commit([CreateNode(path, b"", ephemeral=True)])
        return self._store.scan(SUSPECT_KIND)

    def _is_withdrawing(self, suspect: _Suspect) -> bool:
        return any(path.startswith(_path(suspect, self._node_id, "")) for path in self._tasks)

    def _begin_withdrawing(self, path: str) -> None:
        self._begin(path, self._withdraw(path))

    def _begin(self, path: str, work: Coroutine[Any, Any, None]) -> None:
        if path in self._tasks:
            work.close()
            return
        task = self._tasks[path] = self._host.loop.create_task(work)
        task.add_done_callback(lambda _: self._tasks.pop(path, None))

    async def _withdraw(self, path: str) -> None:
        """Delete a suspicion, however long that takes (rule 4); another broker may have done so
        already."""
        with suppress(VersionConflict):
            await self._repeated(partial(self._store.commit, [DeleteNode(path)]))

    async def _deny_all(self) -> None:
        for node in await self._repeated(partial(self._store.scan, SUSPECT_KIND)):
            self._apply(node.path, True)

    async def _repeated(self, work: Callable[[], Result]) -> Result:
        while True:
            try:
                return await self._in_thread(work)
            except StorageError as error:
                log.warning("suspicion_not_withdrawn", reason=str(error))
                await asyncio.sleep(_RETRY_SECONDS)

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


def _path(suspect: _Suspect, reporter: BrokerId, token: str) -> str:
    return node_path(SUSPECT_KIND, *map(str, (*suspect, reporter)), token)


def _suspect_of(path: str) -> _Suspect:
    broker_id, epoch, *_ = path_parts(path)
    return BrokerId(int(broker_id)), int(epoch)


def _reporter_of(path: str) -> BrokerId:
    return BrokerId(int(path_parts(path)[2]))
