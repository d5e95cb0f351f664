"""A cluster store in memory with sessions that can be cut off, for simulations."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from headrace.cluster.store import (
    CheckNode,
    CreateNode,
    DeleteNode,
    Node,
    SessionWatcher,
    UpdateNode,
    Watcher,
    Write,
    check_data,
    check_path,
)
from headrace.model.error import StorageError, VersionConflict


@dataclass(slots=True)
class Ensemble:
    """What ZooKeeper would hold. `listeners` are called with every path that was written."""

    nodes: dict[str, Node] = field(default_factory=dict)
    owners: dict[str, "MemoryStore"] = field(default_factory=dict)
    listeners: list[Callable[[str], None]] = field(default_factory=list)

    def commit(self, owner: "MemoryStore", writes: Sequence[Write]) -> list[int]:
        after: dict[str, Node | None] = {}
        versions = []
        for write in writes:
            check_path(write.path)
            current = after.get(write.path, self.nodes.get(write.path))
            node = _after(write, current)
            if not isinstance(write, CheckNode):
                after[write.path] = node
            versions.append(-1 if node is None else node.version)
        for path, node in after.items():
            self.owners.pop(path, None)
            if node is None:
                self.nodes.pop(path, None)
            else:
                self.nodes[path] = node
                if node.ephemeral:
                    self.owners[path] = owner
        self._notify(after)
        return versions

    def expire(self, owner: "MemoryStore") -> None:
        """End the session of a store: its ephemeral nodes are gone."""
        gone = [path for path, holder in self.owners.items() if holder is owner]
        for path in gone:
            del self.nodes[path], self.owners[path]
        self._notify(gone)

    def _notify(self, paths: Sequence[str] | dict[str, Node | None]) -> None:
        for path in paths:
            for listener in tuple(self.listeners):
                listener(path)


class MemoryStore:
    """One session with an `Ensemble`.

    Attributes:
        before, after: called around every commit, and before every read (`before` only); each may
            raise `StorageError`, as a cut connection does.
    """

    def __init__(self, ensemble: Ensemble) -> None:
        self.ensemble = ensemble
        self.before: Callable[[], None] = _nothing
        self.after: Callable[[], None] = _nothing
        self.expired = False

    def get(self, path: str) -> Node | None:
        check_path(path)
        self.before()
        return self.ensemble.nodes.get(path)

    def get_all(self, paths: Iterable[str]) -> dict[str, Node]:
        return {path: node for path in paths if (node := self.get(path)) is not None}

    def scan(self, kind: str) -> list[Node]:
        self.before()
        nodes = self.ensemble.nodes
        return [nodes[path] for path in sorted(nodes) if path.startswith(f"/{kind}/")]

    def commit(self, writes: Sequence[Write]) -> list[int]:
        self.before()
        if self.expired:
            raise StorageError("the session has expired")
        versions = self.ensemble.commit(self, writes)
        self.after()
        return versions

    def put(self, path: str, data: bytes, version: int | None) -> int:
        write = CreateNode(path, data) if version is None else UpdateNode(path, data, version)
        return self.commit([write])[0]

    def watch(self, kind: str, watcher: Watcher) -> Callable[[], None]:
        def fired(path: str) -> None:
            if path.startswith(f"/{kind}/"):
                watcher(path, self.ensemble.nodes.get(path))

        self.ensemble.listeners.append(fired)
        return lambda: self.ensemble.listeners.remove(fired)

    def watch_session(self, watcher: SessionWatcher) -> None:
        """Do nothing: the simulation ends sessions itself."""

    def close(self) -> None:
        self.expired = True
        self.ensemble.expire(self)


def _nothing() -> None:
    """Let the call through."""


def _after(write: Write, current: Node | None) -> Node | None:
    if isinstance(write, CreateNode):
        if current is not None:
            raise VersionConflict(f"{write.path} exists already")
        check_data(write.path, write.data)
        return Node(write.path, write.data, 0, write.ephemeral)
    if current is None or write.version not in (None, current.version):
        raise VersionConflict(f"{write.path} is not at version {write.version}")
    if isinstance(write, DeleteNode):
        return None
    if isinstance(write, UpdateNode):
        check_data(write.path, write.data)
        return Node(write.path, write.data, current.version + 1, current.ephemeral)
    return current
