"""Hearing of changes in ZooKeeper, and of the end of our session there.

A watch of ZooKeeper fires once and carries no data. So one thread looks again at whatever fired,
setting the next watch in the same request, and compares with what it saw last: nothing is missed,
though what lies between two looks may be. After every reconnect it looks at everything, and so it
does after a look that failed, again and again until one succeeds: an answer that came too late for
whoever waited has used up its watch, and no reconnect need ever follow.

kazoo says that a session ended only when it can talk to the ensemble again. A broker that is cut
off must know earlier, as the others count it out when its session's time is over: so the time since
the connection broke is counted here as well. The session may turn out to have lived on: whoever is
told that it is lost makes its ephemeral nodes anew, whether they are still there or not.
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Any

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from headrace.cluster.store import Node, SessionWatcher, Watcher
from headrace.model.error import StorageError

_log = logging.getLogger(__name__)

_FAILURES = (KazooException, KazooTimeoutError, StorageError)
_LOOK_AGAIN_SECONDS = 0.5


@dataclass(slots=True)
class _Kind:
    """A watched kind: who wants to know, and the transaction that last changed each node seen."""

    watchers: list[Watcher] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)


class ZooKeeperWatch:
    """The watching side of a `ZooKeeperStore`.

    Thread rule: `add`, `follow_session` and `stop` from any thread; all else on its own thread.
    """

    def __init__(
        self, client: KazooClient, session_seconds: float, make_kind: Callable[[str], None]
    ) -> None:
        self._client = client
        self._session_seconds = session_seconds
        self._make_kind = make_kind
        self._kinds: dict[str, _Kind] = {}
        self._followers: list[SessionWatcher] = []
        self._lock = Lock()
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._suspended_at: float | None = None
        self._lost = False
        self._look_again_at: float | None = None
        client.add_listener(self._state_changed)
        self._thread = Thread(target=self._run, name="zookeeper-watch", daemon=True)
        self._thread.start()

    def add(self, kind: str, watcher: Watcher) -> Callable[[], None]:
        """Returns when every later change will be heard of."""
        with self._lock:
            known = kind in self._kinds
            self._kinds.setdefault(kind, _Kind()).watchers.append(watcher)
        if not known:
            ready = Event()

            def begin() -> None:
                try:
                    self._look_at_kind(kind, whole=True, quiet=True)
                finally:
                    ready.set()

            self._work.put(begin)
            ready.wait()

        def stop() -> None:
            with self._lock, suppress(ValueError):
                self._kinds[kind].watchers.remove(watcher)

        return stop

    def follow_session(self, follower: SessionWatcher) -> None:
        with self._lock:
            self._followers.append(follower)

    def stop(self) -> None:
        self._client.remove_listener(self._state_changed)
        self._work.put(None)
        self._thread.join()

    # kazoo's threads: only put work into the queue. At the end of a session every watch fires
    # without a path; everything is looked at again then anyway.

    def _state_changed(self, state: str) -> None:
        self._work.put(lambda: self._follow_state(state))

    def _kind_fired(self, event: Any) -> None:
        if event.path is not None:
            kind = event.path.strip("/")
            self._work.put(lambda: self._look_at_kind(kind))

    def _node_fired(self, event: Any) -> None:
        if event.path is not None:
            path = event.path
            self._work.put(lambda: self._look_at_node(path))

    # the watching thread

    def _run(self) -> None:
        while True:
            try:
                work = self._work.get(timeout=self._patience())
            except Empty:
                work = self._overdue
            if work is None:
                return
            try:
                work()
            except _FAILURES as error:
                _log.info("a change in ZooKeeper could not be looked at yet: %s", error)
                self._look_again_at = time.monotonic() + _LOOK_AGAIN_SECONDS
            except Exception:  # noqa: BLE001 - one watcher's mistake must not deafen the others
                _log.exception("a watcher of the cluster store failed")

    def _patience(self) -> float | None:
        """How long until something is to be done that nobody asks for."""
        times = [each for each in (self._lost_at, self._look_again_at) if each is not None]
        return max(0.0, min(times) - time.monotonic()) if times else None

    @property
    def _lost_at(self) -> float | None:
        if self._suspended_at is None or self._lost:
            return None
        return self._suspended_at + self._session_seconds

    def _overdue(self) -> None:
        now = time.monotonic()
        if self._lost_at is not None and self._lost_at <= now:
            self._lose()
        if self._look_again_at is not None and self._look_again_at <= now:
            self._look_at_everything()

    def _follow_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._suspended_at = None
            self._look_at_everything()
            return
        if self._suspended_at is None:
            self._suspended_at = time.monotonic()
        if state == KazooState.LOST:
            self._lose()

    def _look_at_everything(self) -> None:
        """A session is only said to live when all that happened meanwhile has been told."""
        if self._suspended_at is not None:
            # After the reconnect.
            self._look_again_at = None
            return
        for kind in list(self._kinds):
            self._look_at_kind(kind, whole=True)
        self._look_again_at = None
        if self._lost:
            self._lost = False
            self._tell_followers(alive=True)

    def _lose(self) -> None:
        if not self._lost:
            self._lost = True
            self._tell_followers(alive=False)

    def _tell_followers(self, *, alive: bool) -> None:
        for follower in tuple(self._followers):
            follower(alive)

    def _look_at_kind(self, kind: str, *, whole: bool = False, quiet: bool = False) -> None:
        """What was added and what is gone; with `whole` what was changed, too."""
        self._make_kind(kind)
        names = self._client.get_children_async(f"/{kind}", watch=self._kind_fired).get(
            timeout=self._session_seconds
        )
        seen = self._kinds[kind].seen
        paths = {f"/{kind}/{name}" for name in names}
        for path in sorted(set(seen) - paths):
            del seen[path]
            self._tell(path, None)
        wanted = sorted(paths if whole else paths - set(seen))
        asked = [(path, self._client.get_async(path, watch=self._node_fired)) for path in wanted]
        for path, answer in asked:
            self._take(path, answer, quiet=quiet)

    def _look_at_node(self, path: str) -> None:
        self._take(path, self._client.get_async(path, watch=self._node_fired))

    def _take(self, path: str, answer: Any, *, quiet: bool = False) -> None:
        seen = self._kinds[path.split("/")[1]].seen
        try:
            data, stat = answer.get(timeout=self._session_seconds)
        except NoNodeError:
            if seen.pop(path, None) is not None:
                self._tell(path, None)
            return
        if seen.get(path) == stat.mzxid:
            return
        seen[path] = stat.mzxid
        if not quiet:
            self._tell(path, Node(path, data, stat.version, ephemeral=stat.ephemeralOwner != 0))

    def _tell(self, path: str, node: Node | None) -> None:
        with self._lock:
            watchers = tuple(self._kinds[path.split("/")[1]].watchers)
        for watcher in watchers:
            watcher(path, node)
