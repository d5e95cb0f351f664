"""A state in Parquet files, one per task, that any Parquet reader can read.

A batch replaces the whole file of every task that had tuples, atomically. So it suits states of
some hundred thousand keys, and batches that are not too frequent.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.flow.error import FlowError
from headrace.flow.storage.location import Location, is_cluster
from headrace.flow.trident.state import Backing, Key, Mode, StateEntry, StateFactory, StateFields

_INSTEAD = (
    "write file:///… for a folder that every machine mounts, or use PostgresState or TopicState"
)
_OWN = pa.schema([("_txid", pa.string()), ("_kept", pa.string()), ("_before", pa.string())])


class ParquetState(StateFactory):
    """Keeps values in a folder of Parquet files. The number of tasks that write it is fixed.

    Example:
        views.group_by("page").persistent_aggregate(ParquetState("pages"), n="count")

    Args:
        folder: a path; for tasks on several machines `file:///…`, a folder that all of them mount.

    Raises:
        FlowError: the folder is on another kind of file system, whose files cannot be replaced
            atomically by a task.
    """

    def __init__(self, folder: str | Path, *, mode: str | Mode = Mode.OPAQUE) -> None:
        self._location = Location.of(folder)
        path = self._location.local_path
        if path is None:
            raise FlowError(f"ParquetState cannot keep files in {folder}: {_INSTEAD}")
        self.folder = str(path)
        self.mode = Mode.of(mode)

    def check_master(self, master: str) -> None:
        if is_cluster(master) and self._location.scheme is None:
            raise FlowError(
                f"ParquetState keeps {self.folder} on this machine, and the tasks of {master} run"
                f" on others: {_INSTEAD}"
            )

    def open(self, state_fields: StateFields, task: int, tasks: int) -> Backing:
        folder = Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        for each in folder.glob("task-*-of-*.parquet"):
            if each.stem.rpartition("-")[2] != str(tasks):
                raise FlowError(
                    f"{folder} was written by another number of tasks than {tasks}: use the same"
                    " parallelism, or another folder"
                )
        return _Parquet([_file(folder, task, tasks)], state_fields)

    def open_for_queries(self, state_fields: StateFields, tasks: int) -> Backing:
        folder = Path(self.folder)
        return _Parquet([_file(folder, task, tasks) for task in range(tasks)], state_fields)


def _file(folder: Path, task: int, tasks: int) -> Path:
    return folder / f"task-{task}-of-{tasks}.parquet"


class _Parquet(Backing):
    """The entries of some files. A backing that writes has one file."""

    def __init__(self, paths: list[Path], state_fields: StateFields) -> None:
        self._paths = paths
        self._state_fields = state_fields
        self._schema = pa.schema([*state_fields.key.schema, *state_fields.value.schema, *_OWN])
        self._seen: list[tuple[int, int] | None] = []
        self._rows: dict[Key, StateEntry] = {}
        self._changed = False

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._load()
        self._changed = False
        try:
            yield
            if self._changed:
                self._write()
        except BaseException:
            self._seen = []  # the memory differs from the disk now
            raise

    def multi_get(self, keys: Sequence[Key]) -> list[StateEntry | None]:
        return [self._rows.get(key) for key in keys]

    def multi_put(self, entries: Iterable[tuple[Key, StateEntry]]) -> None:
        for key, each in entries:
            self._rows[key] = each
            self._changed = True

    def _load(self) -> None:
        """Read the files again if another process has written them."""
        now = [_version(each) for each in self._paths]
        if now == self._seen:
            return
        self._rows = {}
        width = len(self._state_fields.key)
        for path in self._paths:
            if path.exists():
                columns = (each.to_pylist() for each in pq.read_table(path).columns)
                for row in zip(*columns, strict=True):
                    *output, txid, kept, before = row[width:]
                    self._rows[row[:width]] = StateEntry(txid, kept, before, tuple(output))
        self._seen = now

    def _write(self) -> None:
        (path,) = self._paths
        rows = [
            (*key, *each.output, each.txid, each.kept, each.before)
            for key, each in self._rows.items()
        ]
        columns = zip(*rows, strict=True)
        arrays = [
            pa.array(list(column), field.type)
            for column, field in zip(columns, self._schema, strict=True)
        ]
        # Two attempts of one task must not write into the same new file.
        part = path.with_name(f".{path.name}.{os.getpid()}")
        with part.open("wb") as file:
            pq.write_table(pa.Table.from_arrays(arrays, schema=self._schema), file)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        self._seen = [_version(path)]


def _version(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns
