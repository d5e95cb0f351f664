"""A disk in memory that loses in a crash what was not synced.

`CrashDisk` is a `FileSystem` that keeps, for each file and each directory, what is durable and
what has only been written. `crash` decides at random about the difference, as the rules on top of
`headrace.log.filesystem` allow and as real disks do:

    disk = CrashDisk()
    log = open_log(disk)
    log.append(...); log.flush(); log.append(...)
    disk.crash(Random(7))
    log = open_log(disk)          # what was flushed must be there

What a crash may do to a file, one of these at random:
- keep every write, or lose every one since the last `sync`;
- keep the first few, tear the next one at any byte;
- keep any subset of 512-byte sectors, in any order: a page cache writes back as it likes;
- and leave the length longer than the bytes that made it, with zeros in between.

What it may do to names: keep a prefix of each directory's changes, as a journal would, or (chaos)
any subset. A rename is atomic. A file whose name is lost is lost, synced or not.

A `sync` that fails loses what it should have written, and the next `sync` succeeds without it, as
on Linux: code that continues after a failed sync fails here.
"""

import errno
import io
import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from threading import RLock

from headrace.log.filesystem import Bytes
from testkit.fault.crash_node import Directory, Inode, Loss, Node
from testkit.fault.disk_fault import MUTATIONS, Call, Fault, PowerLoss


class CrashFile:
    """A `File` of a `CrashDisk`. A crash makes it useless: every call fails with ESTALE."""

    __slots__ = ("__weakref__", "_disk", "_generation", "_inode", "_open", "_read_only", "path")

    def __init__(self, disk: "CrashDisk", inode: Inode, path: Path, *, read_only: bool) -> None:
        self.path = path
        self._disk = disk
        self._inode = inode
        self._read_only = read_only
        self._generation = disk.generation
        self._open = True

    def fileno(self) -> int:
        """Refuse: what needs a descriptor (sendfile, flock) is tested on a real disk."""
        raise io.UnsupportedOperation(f"{self.path} lies in memory and has no descriptor")

    def size(self) -> int:
        with self._disk.call("size", self.path, file=self):
            return len(self._inode.data)

    def pread(self, size: int, position: int) -> bytes:
        with self._disk.call("pread", self.path, size, file=self):
            return bytes(self._inode.data[position : position + size])

    def pwritev(self, buffers: Sequence[Bytes], position: int) -> int:
        data = b"".join(buffers)

        def short(size_bytes: int) -> None:
            self._inode.change((position, data[:size_bytes]))

        with self._disk.call("pwritev", self.path, len(data), file=self, short=short):
            self._writable()
            if data:
                self._inode.change((position, data))
            return len(data)

    def truncate(self, size: int) -> None:
        with self._disk.call("truncate", self.path, file=self):
            self._writable()
            self._inode.change((size, None))

    def sync(self) -> None:
        with self._disk.call("sync", self.path, file=self, lost=self._inode.pending.clear):
            self._disk.sync_count += 1
            self._inode.sync()

    def close(self) -> None:
        self._open = False

    def check(self) -> None:
        """Raise if this handle leads nowhere any more."""
        if not self._open:
            raise OSError(errno.EBADF, "the file was closed", str(self.path))
        if self._generation != self._disk.generation:
            raise OSError(errno.ESTALE, "the file was open when the disk crashed", str(self.path))

    def _writable(self) -> None:
        if self._read_only:
            raise OSError(errno.EBADF, "the file was opened read-only", str(self.path))

    def __repr__(self) -> str:
        return f"<CrashFile {self.path}>"


class CrashDisk:
    """`FileSystem` in memory with crashes and failing calls. Threads may share it.

    Attributes:
        generation: how many crashes there were; files opened before the last one are stale.
        sync_count: successful `File.sync` calls.
        calls, mutations: how many calls there were, and how many that can change something.
        faults: what fails from now on; the first that matches a call takes it.
        free: what `free_bytes` answers.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.sync_count = 0
        self.calls = 0
        self.mutations = 0
        self.faults: list[Fault] = []
        self.free = 1 << 40
        self._off = False
        self._root = Directory()
        self._lock = RLock()

    # -- what tests do ---------------------------------------------------------------------------

    def inject(self, fault: Fault) -> Fault:
        """Let matching calls fail from now on; returns it for `faults.remove`."""
        self.faults.append(fault)
        return fault

    def crash(self, rng: Random, *, loss: Loss | None = None, chaos: bool | None = None) -> None:
        """Stop the machine and start it again. Faults are gone, and open files are stale.

        Args:
            loss: the same for every file; by default decided at random for each.
            chaos: names survive in any subset; by default decided at random, mostly for a journal.
        """
        with self._lock:
            self.generation += 1
            self.faults.clear()
            self._off = False
            anyhow = rng.random() < 0.25 if chaos is None else chaos
            self._crash_directory(self._root, rng, loss, anyhow)

    def sync_all(self) -> None:
        """Make everything durable: the ground a test starts from. Counts as no call."""
        with self._lock:
            directories = [self._root]
            while directories:
                directory = directories.pop()
                directory.sync()
                for node in directory.names.values():
                    if isinstance(node, Directory):
                        directories.append(node)
                    else:
                        node.sync()

    def fork(self) -> "CrashDisk":
        """Return a second disk in the same state, without faults: one history, many crashes."""
        with self._lock:
            copy = CrashDisk()
            copy._root = self._root.fork({}, {})
            return copy

    def durable_names(self, path: Path) -> set[str]:
        """Return the names of a directory that no crash takes."""
        with self._lock:
            return set(self._directory(path).durable)

    def unsynced_bytes(self, path: Path) -> int:
        """Return how many bytes were written to the file since its last sync."""
        return sum(len(data or b"") for _, data in self._inode(path).pending)

    # -- the file system ---------------------------------------------------------------------------

    def open(
        self, path: Path, *, create: bool = False, read_only: bool = False, private: bool = False
    ) -> CrashFile:
        with self._lock:
            parent = self._parent(path)
            node = parent.names.get(path.name)
            if isinstance(node, Directory):
                raise _error(errno.EISDIR, path)
            with self.call("create" if node is None and create else "open", path):
                if node is None:
                    if not create:
                        raise _error(errno.ENOENT, path)
                    node = Inode()
                    parent.change((path.name, node, None))
            return CrashFile(self, node, path, read_only=read_only)

    def read_bytes(self, path: Path) -> bytes:
        with self.call("read_bytes", path):
            return bytes(self._inode(path).data)

    def write_atomically(self, path: Path, content: bytes, *, private: bool = False) -> None:
        """Write in the steps of `Disk`, each of which can fail."""
        scratch = path.with_name(path.name + ".tmp")
        file = self.open(scratch, create=True)
        file.truncate(0)
        if content:
            file.pwritev([content], 0)
        file.sync()
        file.close()
        self.replace(scratch, path)
        self.sync_directory(path.parent)

    def replace(self, source: Path, target: Path) -> None:
        with self.call("replace", source):
            if source.parent != target.parent:
                raise OSError(errno.EXDEV, "renaming across directories is not modelled")
            parent = self._parent(source)
            node = parent.names.get(source.name)
            if node is None:
                raise _error(errno.ENOENT, source)
            there = parent.names.get(target.name)
            if isinstance(there, Directory) and (there.names or isinstance(node, Inode)):
                raise _error(errno.ENOTEMPTY, target)
            if source != target:
                parent.change((target.name, node, source.name))

    def remove(self, path: Path) -> None:
        with self.call("remove", path):
            self._inode(path)
            self._parent(path).change((path.name, None, None))

    def remove_tree(self, path: Path) -> None:
        with self.call("remove_tree", path):
            self._empty(self._directory(path))
            self._parent(path).change((path.name, None, None))

    def make_directory(self, path: Path) -> None:
        with self.call("make_directory", path):
            directory = self._root
            for name in path.parts[1:]:
                node = directory.names.get(name)
                if isinstance(node, Inode):
                    raise _error(errno.ENOTDIR, path)
                if node is None:
                    node = Directory()
                    directory.change((name, node, None))
                directory = node

    def list(self, path: Path) -> list[str]:
        with self.call("list", path):
            return sorted(self._directory(path).names)

    def exists(self, path: Path) -> bool:
        with self.call("exists", path):
            return self._find(path) is not None

    def size(self, path: Path) -> int:
        with self.call("size", path):
            return len(self._inode(path).data)

    def sync_directory(self, path: Path) -> None:
        with self.call("sync_directory", path):
            self._directory(path).sync()

    def modified_ms(self, path: Path) -> int:
        """Return a time far ahead: a disk in memory has no clock, and its files never grow old."""
        with self.call("modified_ms", path):
            return 2**62

    def free_bytes(self, path: Path) -> int:
        with self.call("free_bytes", path):
            return self.free

    # -- inside ------------------------------------------------------------------------------------

    def call(
        self,
        name: str,
        path: Path,
        size_bytes: int = 0,
        *,
        file: CrashFile | None = None,
        short: Callable[[int], None] | None = None,
        lost: Callable[[], None] | None = None,
    ) -> AbstractContextManager[bool]:
        """Count a call and let it fail if it must; the lock to hold while it happens.

        Args:
            short: writes the first bytes of a write that fails.
            lost: what an error (not a power loss) does besides.
        """
        lock = self._lock
        with lock:
            if self._off:
                raise PowerLoss(f"{name} {path}: the power is off")
            if file is not None:
                file.check()
            self.calls += 1
            self.mutations += name in MUTATIONS
            if self.faults:
                self._fail(Call(self.calls, self.mutations, name, path, size_bytes), short, lost)
        return lock

    def _fail(
        self,
        call: Call,
        short: Callable[[int], None] | None,
        lost: Callable[[], None] | None,
    ) -> None:
        fault = next((fault for fault in self.faults if fault.applies(call)), None)
        if fault is None:
            return
        if fault.times == 0:
            self.faults.remove(fault)
        if short is not None and fault.written_bytes > 0:
            short(min(fault.written_bytes, call.size_bytes))
        if fault.error is None:
            self._off = True
            raise PowerLoss(f"{call.name} {call.path}: the power went at call {call.number}")
        if lost is not None:
            lost()
        raise OSError(fault.error, os.strerror(fault.error), str(call.path))

    def _find(self, path: Path) -> Node | None:
        node: Node | None = self._root
        for name in path.parts[1:]:
            if not isinstance(node, Directory):
                return None
            node = node.names.get(name)
        return node

    def _directory(self, path: Path) -> Directory:
        node = self._find(path)
        if not isinstance(node, Directory):
            raise _error(errno.ENOENT if node is None else errno.ENOTDIR, path)
        return node

    def _parent(self, path: Path) -> Directory:
        if not path.is_absolute():
            raise ValueError(f"{path} must be absolute")
        return self._directory(path.parent)

    def _inode(self, path: Path) -> Inode:
        node = self._find(path)
        if not isinstance(node, Inode):
            raise _error(errno.ENOENT if node is None else errno.EISDIR, path)
        return node

    def _empty(self, directory: Directory) -> None:
        for name, node in list(directory.names.items()):
            if isinstance(node, Directory):
                self._empty(node)
            directory.change((name, None, None))

    def _crash_directory(
        self, directory: Directory, rng: Random, loss: Loss | None, chaos: bool
    ) -> None:
        directory.crash(rng, chaos=chaos)
        for node in directory.names.values():
            if isinstance(node, Directory):
                self._crash_directory(node, rng, loss, chaos)
            else:
                node.crash(rng, loss or rng.choice(tuple(Loss)))


def _error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))
