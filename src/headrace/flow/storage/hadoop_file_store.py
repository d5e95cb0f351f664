"""A folder on any of Hadoop's file systems, through the Java process of the driver.

The session's own Hadoop settings apply: name nodes, Kerberos, keys of an object store. So what
Spark can write, this can. Executors have no such process: only the driver uses it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headrace.flow.error import FlowError
from headrace.flow.storage.file_store import FileStore, LocalFileStore
from headrace.flow.storage.location import Location, check_reachable

_NOT_FOUND = "java.io.FileNotFoundException"
_NO_SUPPORT = "org.apache.hadoop.fs.UnsupportedFileSystemException"


def open_store(spark: Any, location: Location, what: str) -> FileStore:
    """Return the files of a folder that the executors of a session reach too.

    Args:
        what: what is in the folder, as an error names it: the checkpoint.

    Raises:
        FlowError: the executors do not reach it, or Spark has no such file system.
    """
    hadoop = spark._jsparkSession.sessionState().newHadoopConf()
    default_fs = str(hadoop.get("fs.defaultFS"))
    master = spark.sparkContext.master
    check_reachable(location, what, master=master, default_fs=default_fs)
    path = location.local_path
    if path is not None and (location.scheme == "file" or default_fs.startswith("file:")):
        return LocalFileStore(path)
    return HadoopFileStore(spark.sparkContext._gateway, hadoop, location)


class HadoopFileStore(FileStore):
    """A folder of HDFS, of an object store, or of whatever `fs.<scheme>.impl` names.

    A file is written under another name and renamed over the old one, which is atomic on HDFS. On
    an object store a rename copies: a reader sees the old object or the new one.

    Raises:
        FlowError: there is no such file system, or it does not answer.
    """

    def __init__(self, gateway: Any, hadoop: Any, location: Location) -> None:
        self._gateway = gateway
        self._hadoop = hadoop
        self._fs = gateway.jvm.org.apache.hadoop.fs
        self._given = location.text
        with self._reported():
            root = self._fs.Path(location.text)
            self._files = root.getFileSystem(hadoop)
            self._root = self._files.makeQualified(root)

    @property
    def text(self) -> str:
        return str(self._root.toString())

    @property
    def local(self) -> bool:
        return False

    def exists(self, name: str = "") -> bool:
        with self._reported():
            return bool(self._files.exists(self._path(name)))

    def names(self, folder: str = "") -> list[str]:
        try:
            with self._reported():
                found = list(self._files.listStatus(self._path(folder)))
                return sorted(str(each.getPath().getName()) for each in found)
        except FileNotFoundError:
            return []

    def find(self, pattern: str) -> list[str]:
        root = f"{self._root.toUri().getPath().rstrip('/')}/"
        with self._reported():
            found = self._files.globStatus(self._path(pattern))
            paths = [str(each.getPath().toUri().getPath()) for each in found or ()]
        return sorted(each.removeprefix(root) for each in paths)

    def read(self, name: str) -> bytes:
        with self._reported():
            stream = self._files.open(self._path(name))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

    def write(self, name: str, data: bytes) -> None:
        path = self._path(name)
        part = self._fs.Path(path.getParent(), f".{path.getName()}.headrace")
        with self._reported():
            stream = self._files.create(part, True)
            try:
                stream.write(bytearray(data))
                if stream.hasCapability("hsync"):
                    stream.hsync()
            finally:
                stream.close()
            self._replace(part, path)

    def remove(self, name: str) -> None:
        with self._reported():
            self._files.delete(self._path(name), True)

    def _path(self, name: str) -> Any:
        return self._fs.Path(self._root, name) if name else self._root

    def _replace(self, part: Any, path: Any) -> None:
        """Rename over an existing file. Only `FileContext` can; some file systems have none, and
        there the old file is removed first."""
        from py4j.protocol import Py4JJavaError

        rename = getattr(self._fs, "Options$Rename")
        options = self._gateway.new_array(rename, 1)
        options[0] = rename.OVERWRITE
        try:
            context = self._fs.FileContext.getFileContext(self._root.toUri(), self._hadoop)
            context.rename(part, path, options)
        except Py4JJavaError as error:
            if _NO_SUPPORT not in _java_classes(error):
                raise
            self._files.delete(path, False)
            if not self._files.rename(part, path):
                raise FlowError(f"{path.toString()} could not be replaced") from error

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Raise Java's exceptions as ours.

        Raises:
            FileNotFoundError: there is no such file.
            FlowError: anything else.
        """
        from py4j.protocol import Py4JJavaError

        try:
            yield
        except Py4JJavaError as error:
            if _NOT_FOUND in _java_classes(error):
                raise FileNotFoundError(self._given) from error
            why = str(error.java_exception.toString()).splitlines()[0]
            raise FlowError(f"{self._given} cannot be used: {why}") from error


def _java_classes(error: Any) -> list[str]:
    """Return the classes of a Java exception and of its causes."""
    found: list[str] = []
    each = error.java_exception
    while each is not None and len(found) < 8:
        found.append(str(each.getClass().getName()))
        each = each.getCause()
    return found
