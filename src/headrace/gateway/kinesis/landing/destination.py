"""Where the files of channels go: a folder, or the buckets of an object store.

Rule 1: a file is complete when it has its name. While it is written it has another one, with the
epoch of its writer: `.NAME.EPOCH.tmp`. A store of objects shows them when they are complete.
Rule 2: when `write` returns, the file survives a crash of the machine, as far as the file system
can say so: on a disk of this machine, file and folders are synced.
Rule 3: what has the name of a landing has its records, also if another owner wrote it. HDFS would
not rename a file over it.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.storage.storage_folder import StorageFolder, open_folder

if TYPE_CHECKING:
    import pyarrow as pa


class Destination:
    """A folder with a folder per bucket. Threads: any, but one per file.

    Args:
        place: a path or a URI. `s3://?region=eu-west-1` has no bucket of its own: buckets of
            channels are those of S3.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self._opened: StorageFolder | None = None

    @property
    def _storage(self) -> StorageFolder:
        """The folder, opened when it is needed: a store may be out of reach at the start."""
        if self._opened is None:
            self._opened = open_folder(self._place)
        return self._opened

    @property
    def _is_local(self) -> bool:
        return bool(self._storage.filesystem.type_name == "local")

    def check(self, bucket: str) -> None:
        """Refuse a bucket that cannot be written to. In a folder, make it.

        Raises:
            OSError: it does not exist, or cannot be reached.
        """
        import pyarrow.fs

        storage = self._storage
        path = storage.path(bucket)
        if not storage.closes_whole:
            storage.filesystem.create_dir(path, recursive=True)
            if self._is_local and not os.access(path, os.W_OK | os.X_OK):
                raise PermissionError(f"{path} cannot be written to")
            return
        real = path.partition("/")[0]  # else the bucket is a folder of another one
        if storage.filesystem.get_file_info(real).type is pyarrow.fs.FileType.NotFound:
            raise FileNotFoundError(f"the bucket {real} does not exist")

    def has(self, path: str) -> bool:
        """Return whether a file is complete.

        Raises:
            OSError: the file system cannot be reached.
        """
        return self._storage.has(path)

    def write(self, path: str, content: "pa.Buffer", epoch: int) -> None:
        """Write a file. One that has the name already is the same, and stays (rule 3).

        Raises:
            OSError: it cannot be written; the disk may be full.
        """
        storage = self._storage
        final, partial = storage.path(path), storage.path(_partial(path, epoch))
        if self._is_local:
            _write_synced(Path(final), Path(partial), Path(storage.root), content)
            return
        if self.has(path):
            return
        written = final if storage.closes_whole else partial
        if not storage.closes_whole:
            storage.filesystem.create_dir(final.rpartition("/")[0], recursive=True)
        with storage.filesystem.open_output_stream(written) as stream:
            stream.write(content)
        if written != final:
            try:
                storage.filesystem.move(written, final)
            except Exception:  # each file system has its own for a name that is taken
                if not self.has(path):
                    raise
                self.remove_partial(path, epoch)

    def remove_partial(self, path: str, epoch: int) -> None:
        """Remove what a writer that died has left of a file."""
        storage = self._storage
        if not storage.closes_whole:
            with suppress(FileNotFoundError):
                storage.filesystem.delete_file(storage.path(_partial(path, epoch)))


def _partial(path: str, epoch: int) -> str:
    """Return the name that a file has while it is written. Readers pass over names with a dot."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.{epoch}.tmp"


def _write_synced(final: Path, partial: Path, root: Path, content: "pa.Buffer") -> None:
    if not final.is_file():
        _write_partial(final, partial, content)
    folder = final.parent
    while True:
        _sync_folder(folder)
        if folder in (root, folder.parent):
            return
        folder = folder.parent


def _write_partial(final: Path, partial: Path, content: "pa.Buffer") -> None:
    final.parent.mkdir(parents=True, exist_ok=True)
    try:
        with partial.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(final)
    except OSError:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
