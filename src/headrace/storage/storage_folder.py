"""Folders to write to, on pyarrow's file systems or on HDFS without libhdfs."""

from typing import NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs

# In these an object is visible once it is closed, and renaming copies it.
_OBJECT_STORES = ("s3", "gcs", "abfs")


class StorageFolder(NamedTuple):
    """A folder of some file system.

    Attributes:
        root: its path within the file system; empty for all buckets of an object store.
    """

    filesystem: "pyarrow.fs.FileSystem"
    root: str

    def path(self, name: str) -> str:
        return f"{self.root}/{name}" if self.root else name

    def has(self, name: str) -> bool:
        """Return whether a file of this name exists."""
        kind = self.filesystem.get_file_info(self.path(name)).type
        return bool(kind is pa.fs.FileType.File)

    @property
    def flushes(self) -> bool:
        """Whether flushed bytes survive a crash before the file is closed. HDFS supports that, but
        pyarrow's clients do not wait for the data nodes when they flush."""
        return bool(self.filesystem.type_name == "local")

    @property
    def closes_whole(self) -> bool:
        """Whether a file is invisible until it is closed, so that it needs no in-use name."""
        return self.filesystem.type_name in _OBJECT_STORES


def open_folder(folder: str) -> StorageFolder:
    """Open a path, or a URI that pyarrow knows: file, hdfs, s3, gs, abfs.

    Raises:
        OSError: there is no such file system, or it cannot be reached.
    """
    if "://" not in folder:
        return StorageFolder(pa.fs.LocalFileSystem(), folder)
    try:
        return StorageFolder(*pa.fs.FileSystem.from_uri(folder))
    except OSError as error:
        if not folder.startswith("hdfs://") or "lib" not in str(error):
            raise
        return _native_hdfs(folder, error)
    except pa.ArrowException as error:
        raise OSError(f"{folder} is no folder of a known file system: {error}") from error


def _native_hdfs(folder: str, why: OSError) -> StorageFolder:
    """Open a folder with hdfs-native. pyarrow needs libhdfs, which is part of Hadoop and needs
    Java; hdfs-native needs neither."""
    try:
        from hdfs_native.fsspec import HdfsFileSystem
    except ImportError:
        raise OSError(
            f"{folder} cannot be reached without Hadoop's libhdfs ({why}): install that, or "
            "pip install 'headrace[hdfs]'"
        ) from why
    parts = urlsplit(folder)
    try:
        # Without the cache, which is emptied after a fork: a client that is closed there waits for
        # threads that the new process does not have, and an exec source would never start.
        client = HdfsFileSystem(parts.hostname, parts.port, skip_instance_cache=True)
    except Exception as error:
        raise OSError(f"{folder} cannot be reached: {error}") from error
    return StorageFolder(pa.fs.PyFileSystem(pa.fs.FSSpecHandler(client)), parts.path)
