"""Keeps an Iceberg table small: few large files, few snapshots, no files without a snapshot.

Rule 1: the snapshot of a compaction has the offsets of its parent, so that a table that is rolled
back to it continues there, also when all snapshots before it have expired. PyIceberg would repeat
its commit with offsets that another commit has moved since, so it is repeated here.
Rule 2: what a compaction has read must be in the table as it was when its commit is made:
otherwise rows that an upsert has replaced meanwhile would come back.
Rule 3: a snapshot without offsets, which another program made, continues at those of the last one
before it that has some. That one does not expire before it.
"""

import gzip
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from typing import Final

import pyarrow.fs as fs
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.table import FileScanTask
from pyiceberg.table import Table as Iceberg
from pyiceberg.table.snapshots import Snapshot

from headrace.landing.data_file import DataFile, FileSet, FileTarget, conform, remove_files
from headrace.landing.error import LandingError
from headrace.landing.iceberg_merge import read_files
from headrace.landing.iceberg_transaction import SingleCommit

OFFSETS: Final = "headrace.offsets"
"""The property of a snapshot, and of a table, that has the offsets per partition."""

_FEWEST: Final = 2
_MOST_CONFLICTS: Final = 50
_METADATA: Final = ".metadata.json"


class IcebergMaintenance:
    """Rewrites and removes files of one table.

    Args:
        described: returns a file as manifests name it.
        offsets: returns the text of the offsets that the table continues at now.
    """

    def __init__(
        self,
        target: FileTarget,
        table: Iceberg,
        described: Callable[[DataFile], IcebergFile],
        offsets: Callable[[], str],
    ) -> None:
        self._target = target
        self._table = table
        self._described = described
        self._offsets = offsets
        # The files without deleted rows of a snapshot; None before any was looked at.
        self._whole: tuple[int | None, set[str] | None] = (None, None)

    def compact(self, target_bytes: int) -> tuple[int, int]:
        """Rewrite small files of each partition into large ones; return how many into how many.

        A group of files is one commit, so that memory and lost work are bounded by it.
        """
        removed = added = 0
        self._whole = self._head(), None
        for group in self._groups(target_bytes):
            files = FileSet(self._target, target_bytes=target_bytes)
            try:
                for task in group:
                    for batch in read_files(self._table, [task]).to_batches():
                        files.write(conform(batch, self._target.file_schema))
                new = files.finish()
            except BaseException:
                files.discard()
                raise
            if self._replace([each.file for each in group], new):
                removed += len(group)
                added += len(new)
        return removed, added

    def expire(self, older_than: datetime) -> tuple[int, int]:
        """Drop snapshots, then files that no snapshot names; return how many of each.

        Raises:
            LandingError: another table has files below the location, so that none are removed.
        """
        before = len(self._table.snapshots())
        old = self._expired(older_than)
        if old:
            self._table.maintenance.expire_snapshots().by_ids(old).commit()
        self._table.refresh()
        dropped = before - len(self._table.snapshots())
        return dropped, self._remove_strays(older_than)

    def _expired(self, older_than: datetime) -> list[int]:
        """Return the snapshots that are too old, and that no branch, tag or later one needs."""
        metadata = self._table.metadata
        heads = {each.snapshot_id for each in metadata.refs.values()}
        old = {
            each.snapshot_id
            for each in metadata.snapshots
            if each.timestamp_ms < older_than.timestamp() * 1000 and each.snapshot_id not in heads
        }
        by_id: dict[int | None, Snapshot] = {each.snapshot_id: each for each in metadata.snapshots}
        continues: dict[int, bool] = {}  # by snapshot without offsets: whether one before has some
        for each in metadata.snapshots:
            if each.snapshot_id in old:
                continue
            line: list[int] = []
            last: Snapshot | None = each
            while last and last.snapshot_id not in continues and offsets_of(last) is None:
                line.append(last.snapshot_id)
                last = by_id.get(last.parent_snapshot_id)
            found = last is not None and continues.get(last.snapshot_id, True)
            continues.update(dict.fromkeys(line, found))
            if last is not None and found:
                # Whole lines: a snapshot is found by the one after it.
                old.difference_update(line, [last.snapshot_id])
        return sorted(old)

    def _groups(self, target_bytes: int) -> Iterator[list[FileScanTask]]:
        by_partition: dict[str, list[FileScanTask]] = defaultdict(list)
        for task in self._table.scan().plan_files():
            if task.file.file_size_in_bytes < target_bytes // 2 and not task.delete_files:
                by_partition[repr(task.file.partition)].append(task)
        for tasks in by_partition.values():
            group: list[FileScanTask] = []
            size = 0
            for task in tasks:
                if group and size + task.file.file_size_in_bytes > target_bytes:
                    if len(group) >= _FEWEST:
                        yield group
                    group, size = [], 0
                group.append(task)
                size += task.file.file_size_in_bytes
            if len(group) >= _FEWEST:
                yield group

    def _replace(self, old: list[IcebergFile], new: list[DataFile]) -> bool:
        """Commit new files in place of old ones. Return whether that happened: it does not if
        another commit has removed one of the old ones, or rows of it."""
        paths = {each.file_path for each in old}
        for left in reversed(range(_MOST_CONFLICTS)):
            self._table.refresh()
            try:
                if not self._has_whole(paths):
                    break
                self._commit(old, new)
                return True
            except CommitFailedException:
                if not left:
                    self._remove_unless_named(new)
                    raise
        return not self._remove_unless_named(new)

    def _remove_unless_named(self, files: list[DataFile]) -> bool:
        """Remove files that were written in vain. Return False, and leave them, if the table names
        one: their commit was made, whatever was reported of it."""
        paths = [each.path for each in files]
        if any(task.file.file_path in paths for task in self._table.scan().plan_files()):
            return False
        remove_files(self._target.remove_file, paths)
        return True

    def _has_whole(self, paths: set[str]) -> bool:
        """Return whether the table has files with all their rows. They are looked for only when
        another program has made a snapshot."""
        seen, whole = self._whole
        if seen != self._head():
            tasks = self._table.scan().plan_files()
            whole = {each.file.file_path for each in tasks if not each.delete_files}
            self._whole = self._head(), whole
        return whole is None or paths <= whole

    def _head(self) -> int | None:
        head = self._table.current_snapshot()
        return None if head is None else head.snapshot_id

    def _commit(self, old: list[IcebergFile], new: list[DataFile]) -> None:
        properties = {"headrace.compaction": "true", OFFSETS: self._offsets()}
        transaction = SingleCommit(self._table)
        with transaction.update_snapshot(properties).overwrite() as commit:
            for gone in old:
                commit.delete_data_file(gone)
            for each in new:
                commit.append_data_file(self._described(each))
        transaction.commit_transaction()
        self._whole = commit.snapshot_id, self._whole[1]

    def _remove_strays(self, older_than: datetime) -> int:
        """Remove data, manifest and metadata files that the table does not name.

        Raises:
            LandingError: there are files of another table, which this one does not name either.
        """
        location = self._table.location()
        system, root = fs.FileSystem.from_uri(_uri(location))
        named = {_path(each) for each in self._named()}
        found = system.get_file_info(fs.FileSelector(root, recursive=True))
        strays = [
            each
            for each in found
            if each.type is fs.FileType.File and _path(each.path) not in named
        ]
        self._check_owner(system, [each.path for each in strays])
        removed = 0
        for each in strays:
            if each.mtime is not None and each.mtime.astimezone(UTC) < older_than:
                system.delete_file(each.path)
                removed += 1
        return removed

    def _check_owner(self, system: fs.FileSystem, paths: Collection[str]) -> None:
        """Check that files are of no other table. One has the same location if it was renamed, and
        its name given to a new one."""
        own = str(self._table.metadata.table_uuid)
        for each in paths:
            if each.endswith(_METADATA) and _table_id(system, each) not in (own, None):
                raise LandingError(
                    f"{each} is of another table, so no file is removed below "
                    f"{self._table.location()}; old snapshots are dropped. If that table was "
                    "dropped, remove its files; if it was renamed, land in a new table"
                )

    def _named(self) -> Iterator[str]:
        metadata = self._table.metadata
        yield self._table.metadata_location
        yield from (each.metadata_file for each in metadata.metadata_log)
        yield from (each.statistics_path for each in metadata.statistics)
        yield from (each.statistics_path for each in metadata.partition_statistics)
        for snapshot in self._table.snapshots():
            yield snapshot.manifest_list
            for manifest in snapshot.manifests(self._table.io):
                yield manifest.manifest_path
                for entry in manifest.fetch_manifest_entry(self._table.io):
                    yield entry.data_file.file_path


def offsets_of(snapshot: Snapshot) -> str | None:
    """Return the text of the offsets that a snapshot has; None without any."""
    return None if snapshot.summary is None else snapshot.summary[OFFSETS]


def _uri(location: str) -> str:
    return location if "://" in location else f"file://{location}"


def _path(location: str) -> str:
    return location.partition("://")[2].lstrip("/") if "://" in location else location.lstrip("/")


def _table_id(system: fs.FileSystem, path: str) -> str | None:
    """Return the id of the table that a metadata file describes; None if it is cut off."""
    with system.open_input_stream(path, compression=None) as stream:
        content = stream.read()
    try:
        found = json.loads(gzip.decompress(content) if f".gz{_METADATA}" in path else content)
        return str(found["table-uuid"])
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return None
