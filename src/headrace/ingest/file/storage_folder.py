"""The file systems behind the paths of an hdfs sink: pyarrow's, and HDFS without Hadoop's own."""

from typing import NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs

# In these an object is there once it is closed, whole, and renaming it copies it.
_OBJECT_STORES = ("s3", "gcs", "abfs")


class StorageFolder(NamedTuple):
    """A directory somewhere.

    Attributes:
        root: its path as its file system has it.
    """

    filesystem: "pyarrow.fs.FileSystem"
    root: str

    def path(self, name: str) -> str:
        return f"{self.root}/{name}"

    def has(self, name: str) -> bool:
        """Whether there is a file of this name."""
        found = self.filesystem.get_file_info(self.path(name)).type
        return bool(found is pa.fs.FileType.File)

    @property
    def flushes(self) -> bool:
        """Whether what was flushed stays when we die before the file is closed. HDFS could do that,
        but no client of it that pyarrow has waits for the data nodes when it flushes."""
        return bool(self.filesystem.type_name == "local")

    @property
    def closes_whole(self) -> bool:
        """Whether a file is not there before it is closed, so that it needs no name of its own
        until then."""
        return self.filesystem.type_name in _OBJECT_STORES


def open_folder(folder: str) -> StorageFolder:
    """A path, or a URI that pyarrow knows: file, hdfs, s3, gs, abfs.

    Raises:
        OSError: there is no such file system, or it is not reachable.
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
        raise OSError(f"{folder} is no place for files: {error}") from error


def _native_hdfs(folder: str, why: OSError) -> StorageFolder:
    """pyarrow speaks to HDFS through libhdfs, which comes with Hadoop and needs Java; hdfs-native
    needs neither."""
    try:
        from hdfs_native.fsspec import HdfsFileSystem
    except ImportError:
        raise OSError(
            f"{folder} cannot be reached without Hadoop's libhdfs ({why}): install that, or "
            "pip install 'headrace[hdfs]'"
        ) from why
    place = urlsplit(folder)
    try:
        # Out of the cache, which is emptied after a fork: a client that ends there waits for ever
        # for threads that the new process does not have, before an exec source can start.
        client = HdfsFileSystem(place.hostname, place.port, skip_instance_cache=True)
    except Exception as error:
        raise OSError(f"{folder} cannot be reached: {error}") from error
    return StorageFolder(pa.fs.PyFileSystem(pa.fs.FSSpecHandler(client)), place.path)
