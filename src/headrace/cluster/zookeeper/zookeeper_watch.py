"""Watching changes in ZooKeeper, and the end of our session there.

A watch of ZooKeeper fires once and carries no data. So one thread reads the path that fired again,
sets the next watch in the same request, and compares with what it read last. No change is missed,
though a state between two reads may be. It reads everything after every reconnect, and also after a
read that failed, until one succeeds: a reply that came after its timeout has used up its watch, and
no reconnect need ever follow.

A node that the store itself has created or read may be deleted before the watch reads the list it
is in: the list is then as it was, and the caller that knows the node would keep it. So the store
says which nodes it has shown (`shown`), and the watch looks at those that it has not seen yet.

kazoo reports the end of a session only when it reaches the ensemble again. A broker that is cut off
must know earlier, since the others drop it when its session times out. So the time since the
connection broke is counted here as well. The session may turn out to have survived: a broker whose
session is reported as lost creates its ephemeral nodes again, whether they still exist or not.
A break is noted at once, and its time is looked at before each piece of work: hundreds of changes
may be waiting, and each read of them would wait for the ensemble. They are not read until it is
back, when everything is.

kazoo gives up for good when a login fails, and takes a server that dies during a login for one that
refuses it. So the client is started again here, for as long as it takes.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Any

import structlog
from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KeeperState

from headrace.cluster.store import Node, SessionWatcher, Watcher
from headrace.model.error import StorageError

_log = structlog.get_logger(__name__)

# Requests on their way at a time: a failover changes thousands of nodes at once.
PIPELINE = 500
_FAILURES = (KazooException, KazooTimeoutError, StorageError)
_RETRY_SECONDS = 0.5
_GIVEN_UP = (KeeperState.AUTH_FAILED, KeeperState.CLOSED)


def _nothing() -> None:
    """Stand for work when none came before something was due."""


@dataclass(slots=True)
class _Kind:
    """A watched kind.

    Attributes:
        seen: the transaction that last changed each node that the watch has read.
        shown: nodes that the store has shown to its callers, and the watch has not read yet.
    """

    watchers: list[Watcher] = field(default_factory=list)
    seen: dict[str, int] = field(default_factory=dict)
    shown: set[str] = field(default_factory=set)


class ZooKeeperWatch:
    """The watching side of a `ZooKeeperStore`.

    Thread rule: `add`, `shown`, `watch_session` and `stop` from any thread; all else on its own
    thread. `_suspended_at` and `_breaks` change under the lock: kazoo's thread notes a break, and
    the end of one counts only if no other came since.
    """

    def __init__(
        self, client: KazooClient, session_seconds: float, make_kind: Callable[[str], None]
    ) -> None:
        self._client = client
        self._session_seconds = session_seconds
        self._make_kind = make_kind
        self._kinds: dict[str, _Kind] = {}
        self._session_watchers: list[SessionWatcher] = []
        self._lock = Lock()
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # Nodes whose watches have fired, in order; under the lock.
        self._fired: dict[str, None] = {}
        self._suspended_at: float | None = None
        self._breaks = 0
        self._lost = False
        self._retry_at: float | None = None
        self._restart_at: float | None = None
        self._refused = False
        client.add_listener(self._state_changed)
        self._thread = Thread(target=self._run, name="zookeeper-watch", daemon=True)
        self._thread.start()

    def add(self, kind: str, watcher: Watcher) -> Callable[[], None]:
        """Add a watcher; it will see every change after this call returns."""
        with self._lock:
            known = kind in self._kinds
            self._kinds.setdefault(kind, _Kind()).watchers.append(watcher)
        if not known:
            ready = Event()

            def begin() -> None:
                try:
                    self._read_kind(kind, whole=True, quiet=True)
                finally:
                    ready.set()

            self._work.put(begin)
            ready.wait()

        def stop() -> None:
            with self._lock, suppress(ValueError):
                self._kinds[kind].watchers.remove(watcher)

        return stop

    def shown(self, paths: Iterable[str]) -> None:
        """Look at nodes of which a caller of the store knows now that they exist.

        Those that are gone by then are reported, though the watch has never seen them.
        """
        watched = [path for path in paths if path.split("/")[1] in self._kinds]
        if watched:
            self._work.put(lambda: self._read_shown(watched))

    def watch_session(self, watcher: SessionWatcher) -> None:
        with self._lock:
            self._session_watchers.append(watcher)

    def stop(self) -> None:
        self._client.remove_listener(self._state_changed)
        self._work.put(None)
        self._thread.join()

    # kazoo's threads: only put work into the queue, and note a break. At the end of a session every
    # watch fires without a path; everything is read again then anyway.

    def _state_changed(self, state: str) -> None:
        with self._lock:
            if state != KazooState.CONNECTED:
                self._breaks += 1
                if self._suspended_at is None:
                    self._suspended_at = time.monotonic()
            breaks = self._breaks
        self._work.put(lambda: self._apply_state(state, breaks))

    def _kind_fired(self, event: Any) -> None:
        if event.path is not None:
            kind = event.path.strip("/")
            self._work.put(lambda: self._read_kind(kind))

    def _node_fired(self, event: Any) -> None:
        if event.path is None:
            return
        with self._lock:
            waiting = bool(self._fired)
            self._fired[event.path] = None
        if not waiting:
            self._work.put(self._read_fired)

    # the watching thread

    def _run(self) -> None:
        while True:
            try:
                work = self._work.get(timeout=self._timeout())
            except Empty:
                work = _nothing
            if work is None:
                return
            # Before the work, and not when there is none: thousands of changes may be waiting.
            self._try(self._lose_if_due)
            self._try(self._overdue)
            self._try(work)

    def _try(self, work: Callable[[], None]) -> None:
        try:
            work()
        except _FAILURES as error:
            _log.debug("zookeeper_read_failed", reason=str(error))
            self._retry_at = time.monotonic() + _RETRY_SECONDS
        except Exception:  # noqa: BLE001 - one watcher's mistake must not stop the others
            _log.exception("cluster_watcher_failed")

    def _timeout(self) -> float | None:
        """Return how long to wait for work before something else is due; None for ever."""
        due = (self._lost_at, self._retry_at, self._restart_at)
        times = [each for each in due if each is not None]
        return max(0.0, min(times) - time.monotonic()) if times else None

    @property
    def _lost_at(self) -> float | None:
        if self._suspended_at is None or self._lost:
            return None
        return self._suspended_at + self._session_seconds

    def _overdue(self) -> None:
        now = time.monotonic()
        if self._restart_at is not None and self._restart_at <= now:
            self._restart()
        if self._retry_at is not None and self._retry_at <= now:
            self._read_everything()

    def _apply_state(self, state: str, breaks: int) -> None:
        if state == KazooState.CONNECTED:
            with self._lock:
                if breaks != self._breaks:  # a later state is in the queue
                    return
                self._suspended_at = None
            self._restart_at = None
            self._read_everything()
            return
        if state == KazooState.LOST:
            self._lose()
            # A session that has only ended is replaced by kazoo itself.
            self._restart_at = time.monotonic() + _RETRY_SECONDS

    def _restart(self) -> None:
        """Start a client that gave up, and look again later: the login may be refused again."""
        self._restart_at = time.monotonic() + _RETRY_SECONDS
        if self._client.client_state in _GIVEN_UP:
            if not self._refused:
                self._refused = True
                _log.warning("zookeeper_login_refused", retry_seconds=_RETRY_SECONDS)
            self._client.start_async()

    def _read_everything(self) -> None:
        """Read all kinds. A session is reported alive only after the watchers saw all changes."""
        if self._suspended_at is not None:
            # After the reconnect.
            self._retry_at = None
            return
        breaks = self._breaks
        for kind in list(self._kinds):
            self._read_kind(kind, whole=True)
        if breaks != self._breaks:
            # Some kinds were not read, and no answer was missing to say so.
            return
        self._retry_at = None
        self._refused = False
        if self._lost:
            self._lost = False
            self._report_session(alive=True)

    def _lose_if_due(self) -> None:
        lost_at = self._lost_at
        if lost_at is not None and lost_at <= time.monotonic() and not self._client.connected:
            self._lose()

    def _lose(self) -> None:
        if not self._lost:
            self._lost = True
            self._report_session(alive=False)

    def _report_session(self, *, alive: bool) -> None:
        for watcher in tuple(self._session_watchers):
            watcher(alive)

    def _read_kind(self, kind: str, *, whole: bool = False, quiet: bool = False) -> None:
        """Read which nodes were added or deleted; with `whole` also which were changed."""
        if self._suspended_at is not None:
            return
        self._make_kind(kind)
        names = self._client.get_children_async(f"/{kind}", watch=self._kind_fired).get(
            timeout=self._session_seconds
        )
        seen, shown = self._kinds[kind].seen, self._kinds[kind].shown
        paths = {f"/{kind}/{name}" for name in names}
        for path in sorted((seen.keys() | shown) - paths):
            self._report_gone(path)
        to_read = sorted(paths if whole else paths - set(seen))
        asked = [(path, self._client.get_async(path, watch=self._node_fired)) for path in to_read]
        for path, answer in asked:
            self._compare(path, answer, quiet=quiet)

    def _read_shown(self, paths: list[str]) -> None:
        unseen = []
        for path in paths:
            kind = self._kinds[path.split("/")[1]]
            if path not in kind.seen:
                # Kept until it is read: if that fails, everything is read again.
                kind.shown.add(path)
                unseen.append(path)
        if self._suspended_at is not None:
            return
        asked = [(path, self._client.get_async(path, watch=self._node_fired)) for path in unseen]
        for path, answer in asked:
            self._compare(path, answer)

    def _read_fired(self) -> None:
        """Read the nodes whose watches have fired, many at once: one after the other, each would
        take the time of a round trip."""
        with self._lock:
            paths = list(self._fired)[:PIPELINE]
            for path in paths:
                del self._fired[path]
            if self._fired:
                self._work.put(self._read_fired)
        if self._suspended_at is not None:
            return
        asked = [(path, self._client.get_async(path, watch=self._node_fired)) for path in paths]
        for path, answer in asked:
            self._compare(path, answer)

    def _compare(self, path: str, answer: Any, *, quiet: bool = False) -> None:
        kind = self._kinds[path.split("/")[1]]
        seen = kind.seen
        try:
            data, stat = answer.get(timeout=self._session_seconds)
        except NoNodeError:
            if path in seen or path in kind.shown:
                self._report_gone(path)
            return
        kind.shown.discard(path)
        if seen.get(path) == stat.mzxid:
            return
        seen[path] = stat.mzxid
        if not quiet:
            self._notify(path, Node(path, data, stat.version, ephemeral=stat.ephemeralOwner != 0))

    def _report_gone(self, path: str) -> None:
        kind = self._kinds[path.split("/")[1]]
        kind.seen.pop(path, None)
        kind.shown.discard(path)
        self._notify(path, None)

    def _notify(self, path: str, node: Node | None) -> None:
        with self._lock:
            watchers = tuple(self._kinds[path.split("/")[1]].watchers)
        for watcher in watchers:
            watcher(path, node)
