"""`ClusterStore`: where the cluster's state lies, as small nodes with versions.

One broker alone keeps it on its disk (`local_store`), a cluster in ZooKeeper. Both pass the same
tests (`testkit.simulation.cluster_store_contract`), so no caller depends on which one it
has. The contract is what ZooKeeper can promise:

Rule 1: a node is a path of exactly two parts, `/kind/name`, with up to a megabyte of data.
Rule 2: a node is created at version 0 and every update adds 1. A node that was deleted and created
        again starts at 0: a version does not tell two lives of one path apart.
Rule 3: `commit` does all of its writes or none, and returns when they are durable. Writes of one
        commit see the ones before them.
Rule 4: a write that expects another version than it finds raises `VersionConflict`, and so does
        creating what exists and changing what does not. Read again, decide again, try again.
Rule 5: a commit that raises `StorageError` may or may not be there after the next start.
Rule 6: a watcher gets the newest state of a changed node, at least once, after the change is
        durable. Changes in between may be left out; so is a node that came and went in between.
Rule 7: an ephemeral node vanishes when the store that created it closes or its process dies. A
        store that cannot reach the ensemble for longer than its session loses its ephemeral nodes
        as well, and reports it to the watchers of its session.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote, unquote

from headrace.model.error import InvalidArgument

# ZooKeeper's default limit for one packet (jute.maxbuffer), paths and all.
MAX_COMMIT_BYTES = 0xFFFFF
# Less than that by the node's path and by what its commit checks.
MAX_NODE_BYTES = 1_020_000
MAX_PATH_BYTES = 4_096
# About what a write takes in a packet beside its path and its data: its head, the cluster's root
# before the path, and the ACL of a new node.
WRITE_BYTES = 200


@dataclass(frozen=True, slots=True)
class Node:
    """The data at a path, with its version."""

    path: str
    data: bytes
    version: int
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class CreateNode:
    """Create a node where there is none."""

    path: str
    data: bytes
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class UpdateNode:
    """Replace the data of a node; `version` None accepts any."""

    path: str
    data: bytes
    version: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """Delete a node; `version` None accepts any."""

    path: str
    version: int | None = None


@dataclass(frozen=True, slots=True)
class CheckNode:
    """Change nothing, but fail the whole commit unless the node is at this version."""

    path: str
    version: int


Write = CreateNode | UpdateNode | DeleteNode | CheckNode
Watcher = Callable[[str, Node | None], None]
"""Called with the path and what lies there now; None when it was deleted."""
SessionWatcher = Callable[[bool], None]
"""Called with False when the store's session ended, and with True when there is a new one."""


class ClusterStore(Protocol):
    """Versioned nodes. Every method may be called from any thread and may wait for I/O."""

    def get(self, path: str) -> Node | None: ...

    def get_all(self, paths: Iterable[str]) -> dict[str, Node]:
        """Return the nodes that exist at these paths. Where the store is far away this takes about
        as long as one `get`, not as long as all of them."""

    def scan(self, kind: str) -> list[Node]:
        """Return every node of a kind, by name."""

    def commit(self, writes: Sequence[Write]) -> list[int]:
        """Carry out all of the writes or none.

        Returns:
            The version after each write or check; -1 for a deletion.

        Raises:
            VersionConflict: another writer was faster; nothing was written.
            StorageError: the disk or the ensemble failed (rule 5).
        """

    def put(self, path: str, data: bytes, version: int | None) -> int:
        """Create the node (`version` None) or replace exactly that version of it."""

    def watch(self, kind: str, watcher: Watcher) -> Callable[[], None]:
        """Call `watcher` after every change to nodes of a kind; the returned function ends that.

        The watcher is called on a thread of the store. It must be quick and must not commit.
        """

    def watch_session(self, watcher: SessionWatcher) -> None:
        """Call `watcher`, on a thread of the store, when ephemeral nodes were lost (rule 7)."""

    def close(self) -> None: ...


def node_path(kind: str, *parts: str) -> str:
    """Return the path of the node named by `parts`, which may hold any character.

    >>> node_path("quotas", "user=anna/berg", "client-id=")
    '/quotas/user%3Danna%2Fberg,client-id%3D'
    """
    return f"/{kind}/" + ",".join(quote(part, safe="") for part in parts)


def path_parts(path: str) -> tuple[str, ...]:
    """Return the parts of a path, without the kind: the inverse of `node_path`."""
    _, _, name = path.rpartition("/")
    return tuple(unquote(part) for part in name.split(","))


def check_path(path: str) -> tuple[str, str]:
    """Return kind and name of a path.

    Raises:
        InvalidArgument: when it is not `/kind/name`.
    """
    root, _, rest = path.partition("/")
    kind, _, name = rest.partition("/")
    well_formed = not root and kind and name and "/" not in name and path.isascii()
    if not well_formed or len(path) > MAX_PATH_BYTES:
        raise InvalidArgument(f"{path[:100]!r} is not the path of a node: write it as '/kind/name'")
    return kind, name


def write_bytes(write: Write) -> int:
    """Return about what a write, or a check, takes in a packet of ZooKeeper's."""
    data = len(write.data) if isinstance(write, CreateNode | UpdateNode) else 0
    return WRITE_BYTES + len(write.path) + data


def node_problem(path: str, data: bytes) -> str | None:
    """Return why a node would be too large for any store, or None when it is not."""
    if len(path) > MAX_PATH_BYTES:
        return (
            f"{path[:100]}... takes {len(path)} bytes: the names of a node of the cluster store "
            f"take at most {MAX_PATH_BYTES} together"
        )
    if len(data) > MAX_NODE_BYTES:
        return (
            f"{path} cannot hold {len(data)} bytes: a node of the cluster store holds at most "
            f"{MAX_NODE_BYTES}"
        )
    return None


def check_data(path: str, data: bytes) -> None:
    problem = node_problem(path, data)
    if problem is not None:
        raise InvalidArgument(problem)
