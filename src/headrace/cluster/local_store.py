"""`LocalStore`: the cluster store of a broker that is alone, in two files on its disk."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import RLock

import structlog

from headrace.cluster.journal import (
    JournalDelete,
    JournalFrame,
    JournalOperation,
    JournalPut,
    decode_snapshot,
    encode_frame,
    encode_snapshot,
    read_frames,
)
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
from headrace.log.filesystem import File, FileSystem, has_no_room
from headrace.model.error import (
    CorruptLog,
    DiskFull,
    InvalidArgument,
    LogDirectoryOffline,
    StorageError,
    VersionConflict,
)

SNAPSHOT_NAME = "cluster.snapshot"
JOURNAL_NAME = "cluster.journal"

# A journal is folded into the snapshot when it is past this and past twice the snapshot: the work
# of folding then stays in proportion to the work of committing, however many topics there are.
_MINIMUM_FOLD_BYTES = 1 << 20

_log = structlog.get_logger(__name__)


class LocalStore:
    """Everything in memory; every commit one synced frame at the end of the journal.

    Invariant: memory is the snapshot with every frame of a higher sequence number applied in order.

    Crash behaviour: a commit that returned is there after the next open. The last frame may be
    torn: it is cut off, as its commit never returned. A snapshot replaces the old one atomically
    and its frames are skipped by their sequence numbers until the journal has been emptied. Damage
    to anything that was synced is `CorruptLog`, and nothing is served then.

    A write that fails is cut off again, and the store goes on. A sync that fails, or a write that
    cannot be cut off, leaves the disk in an unknown state: every later commit is refused until the
    store is opened again, while reads go on.

    Both files are the broker's alone: they hold passwords of mirror links and credentials of users.

    Thread rule: any thread may call anything. Watchers are called by the committing thread, in the
    order of the commits.
    """

    def __init__(self, file_system: FileSystem, directory: Path) -> None:
        """Use `open`."""
        self._file_system = file_system
        self._directory = directory
        self._lock = RLock()
        self._nodes: dict[str, dict[str, Node]] = {}
        self._watchers: defaultdict[str, list[Watcher]] = defaultdict(list)
        self._journal: File | None = None
        self._journal_bytes = 0
        self._snapshot_bytes = 0
        self._sequence = 0
        self._failure: str | None = None

    @classmethod
    def open(cls, file_system: FileSystem, directory: Path) -> "LocalStore":
        """Open the store in `directory`, which is created when it is missing.

        Raises:
            CorruptLog: when the checksum of synced bytes is wrong.
            StorageError: when the disk fails.
        """
        store = cls(file_system, directory)
        try:
            store._load()
        except OSError as error:
            raise StorageError(f"the cluster store in {directory} cannot be opened: {error}") from (
                error
            )
        return store

    # Reading

    def get(self, path: str) -> Node | None:
        kind, _ = check_path(path)
        with self._lock:
            return self._nodes.get(kind, {}).get(path)

    def get_all(self, paths: Iterable[str]) -> dict[str, Node]:
        return {path: node for path in paths if (node := self.get(path)) is not None}

    def scan(self, kind: str) -> list[Node]:
        with self._lock:
            nodes = list(self._nodes.get(kind, {}).values())
        return sorted(nodes, key=lambda node: node.path)

    def watch(self, kind: str, watcher: Watcher) -> Callable[[], None]:
        with self._lock:
            self._watchers[kind].append(watcher)

        def stop() -> None:
            with self._lock:
                if watcher in self._watchers[kind]:
                    self._watchers[kind].remove(watcher)

        return stop

    def watch_session(self, watcher: SessionWatcher) -> None:
        """Do nothing: a store in this process never loses its session."""

    # Writing

    def put(self, path: str, data: bytes, version: int | None) -> int:
        write = CreateNode(path, data) if version is None else UpdateNode(path, data, version)
        return self.commit([write])[0]

    def commit(self, writes: Sequence[Write]) -> list[int]:
        with self._lock:
            if self._journal is None:
                raise InvalidArgument("the cluster store is closed")
            changed, versions = self._decide(writes)
            durable = list(self._durable(changed))
            if durable:
                self._append(durable)
            self._adopt(changed)
            if durable:
                self._fold_if_due()
            self._notify(changed)
            return versions

    def _decide(self, writes: Sequence[Write]) -> tuple[dict[str, Node | None], list[int]]:
        """Return what each path holds after the writes, each seeing the ones before it."""
        changed: dict[str, Node | None] = {}
        versions: list[int] = []
        for write in writes:
            kind, _ = check_path(write.path)
            stored = self._nodes.get(kind, {}).get(write.path)
            node = _after(write, changed.get(write.path, stored))
            if not isinstance(write, CheckNode):
                changed[write.path] = node
            versions.append(-1 if node is None else node.version)
        return changed, versions

    def _durable(self, changed: dict[str, Node | None]) -> Iterable[JournalOperation]:
        for path, node in changed.items():
            if node is not None and not node.ephemeral:
                yield JournalPut(path, node.data, node.version)
                continue
            kind, _ = check_path(path)
            before = self._nodes.get(kind, {}).get(path)
            if before is not None and not before.ephemeral:
                yield JournalDelete(path)

    def _append(self, operations: Sequence[JournalOperation]) -> None:
        journal = self._writable()
        frame = encode_frame(self._sequence + 1, operations)
        try:
            journal.pwritev([frame], self._journal_bytes)
        except OSError as error:
            self._cut_off(journal, error)
            kind = DiskFull if has_no_room(error) else StorageError
            raise kind(
                f"the cluster store in {self._directory} cannot be written: {error}"
            ) from error
        try:
            journal.sync()
        except OSError as error:
            self._fail(f"a sync failed ({error})")
            raise StorageError(
                f"the cluster store in {self._directory} cannot be synced: {error}"
            ) from error
        self._journal_bytes += len(frame)
        self._sequence += 1

    def _writable(self) -> File:
        if self._failure is not None:
            raise LogDirectoryOffline(
                f"the cluster store in {self._directory} takes no changes because {self._failure}: "
                "repair the disk and start again"
            )
        assert self._journal is not None
        return self._journal

    def _cut_off(self, journal: File, error: OSError) -> None:
        try:
            journal.truncate(self._journal_bytes)
        except OSError:
            self._fail(f"a write failed and could not be cut off ({error})")

    def _fail(self, why: str) -> None:
        self._failure = why
        _log.error("cluster_store_failed", directory=str(self._directory), reason=why)

    def _adopt(self, changed: dict[str, Node | None]) -> None:
        for path, node in changed.items():
            kind, _ = check_path(path)
            if node is not None:
                self._nodes.setdefault(kind, {})[path] = node
            else:
                self._nodes.get(kind, {}).pop(path, None)

    def _notify(self, changed: dict[str, Node | None]) -> None:
        for path, node in changed.items():
            kind, _ = check_path(path)
            for watcher in tuple(self._watchers.get(kind, ())):
                watcher(path, node)

    # Folding the journal into the snapshot

    def _fold_if_due(self) -> None:
        if self._journal_bytes < max(_MINIMUM_FOLD_BYTES, 2 * self._snapshot_bytes):
            return
        try:
            self._fold()
        except OSError as error:
            # Nothing is lost: the commit is in the journal. The next one tries to fold again.
            _log.warning(
                "cluster_journal_not_folded", directory=str(self._directory), reason=str(error)
            )

    def _fold(self) -> None:
        journal = self._writable()
        durable = (
            JournalPut(node.path, node.data, node.version)
            for nodes in self._nodes.values()
            for node in nodes.values()
            if not node.ephemeral
        )
        snapshot = encode_snapshot(self._sequence, durable)
        self._file_system.write_atomically(self._directory / SNAPSHOT_NAME, snapshot, private=True)
        self._snapshot_bytes = len(snapshot)
        journal.truncate(0)
        self._journal_bytes = 0
        journal.sync()

    # Opening and closing

    def _load(self) -> None:
        file_system, directory = self._file_system, self._directory
        new = [each for each in (directory, *directory.parents) if not file_system.exists(each)]
        file_system.make_directory(directory)
        if file_system.exists(directory / SNAPSHOT_NAME):
            file_system.open(directory / SNAPSHOT_NAME, read_only=True, private=True).close()
            snapshot = file_system.read_bytes(directory / SNAPSHOT_NAME)
            self._snapshot_bytes = len(snapshot)
            self._sequence, operations = decode_snapshot(snapshot)
            self._replay(operations)
        journal = file_system.open(directory / JOURNAL_NAME, create=True, private=True)
        try:
            self._load_journal(journal)
            for each in dict.fromkeys(
                (directory, directory.parent, *(path.parent for path in new))
            ):
                file_system.sync_directory(each)
        except BaseException:
            journal.close()
            raise
        self._journal = journal

    def _load_journal(self, journal: File) -> None:
        data = journal.pread(journal.size(), 0)
        for frame in read_frames(data, self._sequence):
            self._check_order(frame)
            if frame.sequence > self._sequence:
                self._replay(frame.operations)
                self._sequence = frame.sequence
            self._journal_bytes = frame.end
        torn = len(data) - self._journal_bytes
        if torn:
            _log.warning("cluster_journal_cut", path=str(journal.path), torn_bytes=torn)
            journal.truncate(self._journal_bytes)
            journal.sync()

    def _check_order(self, frame: JournalFrame) -> None:
        if frame.sequence > self._sequence + 1:
            raise CorruptLog(
                f"the journal of the cluster store in {self._directory} goes on with commit "
                f"{frame.sequence} after {self._sequence}: commits are missing"
            )

    def _replay(self, operations: Iterable[JournalOperation]) -> None:
        for operation in operations:
            kind, _ = check_path(operation.path)
            nodes = self._nodes.setdefault(kind, {})
            if isinstance(operation, JournalPut):
                nodes[operation.path] = Node(operation.path, operation.data, operation.version)
            else:
                nodes.pop(operation.path, None)

    def close(self) -> None:
        with self._lock:
            journal, self._journal = self._journal, None
            if journal is not None:
                journal.close()


def _after(write: Write, current: Node | None) -> Node | None:
    """Return what the path holds after the write."""
    if isinstance(write, CreateNode):
        if current is not None:
            raise VersionConflict(f"{write.path} exists already, at version {current.version}")
        check_data(write.path, write.data)
        return Node(write.path, write.data, 0, write.ephemeral)
    if current is None:
        raise VersionConflict(f"{write.path} does not exist")
    if write.version is not None and write.version != current.version:
        raise VersionConflict(
            f"{write.path} is at version {current.version}, not at {write.version}"
        )
    if isinstance(write, CheckNode):
        return current
    if isinstance(write, DeleteNode):
        return None
    check_data(write.path, write.data)
    return Node(write.path, write.data, current.version + 1, current.ephemeral)
