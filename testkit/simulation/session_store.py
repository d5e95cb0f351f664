"""A session with an `Ensemble` in memory, whose watches and whose end are reported as ZooKeeper's.

A watch event only says where to look: the session reads the node, and compares with what it saw
last and with what it has shown to its callers (`cluster.zookeeper.zookeeper_watch`). After a cut
it reads everything.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from headrace.cluster.store import CreateNode, Node, SessionWatcher, Watcher, Write
from testkit.simulation.memory_store import Ensemble, MemoryStore


class SessionStore(MemoryStore):
    """A `MemoryStore` for the real `ClusterMember`; the simulator says when events arrive."""

    def __init__(self, ensemble: Ensemble) -> None:
        super().__init__(ensemble)
        self._watchers: dict[str, list[Watcher]] = defaultdict(list)
        self._session_watchers: list[SessionWatcher] = []
        self._seen: dict[str, Node] = {}
        self._shown: set[str] = set()

    def get(self, path: str) -> Node | None:
        node = super().get(path)
        if node is not None:
            self._show([path])
        return node

    def scan(self, kind: str) -> list[Node]:
        nodes = super().scan(kind)
        self._show(node.path for node in nodes)
        return nodes

    def commit(self, writes: Sequence[Write]) -> list[int]:
        versions = super().commit(writes)
        self._show(write.path for write in writes if isinstance(write, CreateNode))
        return versions

    def _show(self, paths: Iterable[str]) -> None:
        self._shown |= {
            path
            for path in paths
            if path.split("/")[1] in self._watchers and path not in self._seen
        }

    def watch(self, kind: str, watcher: Watcher) -> Callable[[], None]:
        self.before()
        self._watchers[kind].append(watcher)
        self._seen |= {each.path: each for each in super().scan(kind)}
        return lambda: self._watchers[kind].remove(watcher)

    def watch_session(self, watcher: SessionWatcher) -> None:
        self._session_watchers.append(watcher)

    def close(self) -> None:
        """End the session: the ensemble has waited for long enough, and so has the client."""
        super().close()
        self._report(alive=False)

    # -- for the simulator

    def heard(self, path: str) -> None:
        """Take a watch event."""
        node = self.ensemble.nodes.get(path)
        if node is self._seen.get(path) and path not in self._shown:
            return
        self._shown.discard(path)
        if node is None:
            self._seen.pop(path, None)
        else:
            self._seen[path] = node
        for watcher in tuple(self._watchers[path.split("/")[1]]):
            watcher(path, node)

    def reconnected(self) -> None:
        """Read everything after a cut; begin a new session if the last one is over."""
        over, self.expired = self.expired, False
        for path in sorted({*self._seen, *self._shown, *self.ensemble.nodes}):
            if path.split("/")[1] in self._watchers:
                self.heard(path)
        if over:
            self._report(alive=True)

    def _report(self, *, alive: bool) -> None:
        for watcher in tuple(self._session_watchers):
            watcher(alive)
