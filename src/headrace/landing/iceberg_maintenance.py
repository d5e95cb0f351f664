"""Keeps an Iceberg table small: few large files, few snapshots, no files without a snapshot."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Final

import pyarrow.fs as fs
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.table import FileScanTask
from pyiceberg.table import Table as Iceberg

from headrace.landing.data_file import DataFile, FileSet, FileTarget, conform
from headrace.landing.iceberg_merge import read_files

# A commit beside ours adds files and removes none of those that are rewritten.
_ISOLATION: Final = {
    "write.delete.isolation-level": "snapshot",
    "write.update.isolation-level": "snapshot",
    "write.merge.isolation-level": "snapshot",
}
_FEWEST: Final = 2


class IcebergMaintenance:
    """Rewrites and removes files of one table.

    Args:
        described: returns a file as manifests name it.
    """

    def __init__(
        self, target: FileTarget, table: Iceberg, described: Callable[[DataFile], IcebergFile]
    ) -> None:
        self._target = target
        self._table = table
        self._described = described

    def compact(self, target_bytes: int) -> tuple[int, int]:
        """Rewrite small files of each partition into large ones; return how many into how many.

        A group of files is one commit, so that memory and lost work are bounded by it.
        """
        removed = added = 0
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
            self._replace([each.file for each in group], new)
            removed += len(group)
            added += len(new)
        return removed, added

    def expire(self, older_than: datetime) -> tuple[int, int]:
        """Drop snapshots, then files that no snapshot names; return how many of each."""
        before = len(self._table.snapshots())
        self._table.maintenance.expire_snapshots().older_than(older_than).commit()
        self._table.refresh()
        dropped = before - len(self._table.snapshots())
        return dropped, self._remove_strays(older_than)

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

    def _replace(self, old: list[IcebergFile], new: list[DataFile]) -> None:
        metadata = self._table.metadata
        relaxed = {**metadata.properties, **_ISOLATION}
        # Only in memory: the catalog is sent changes, and this is none.
        self._table.metadata = metadata.model_copy(update={"properties": relaxed})
        transaction = self._table.transaction()
        with transaction.update_snapshot({"headrace.compaction": "true"}).overwrite() as commit:
            for gone in old:
                commit.delete_data_file(gone)
            for each in new:
                commit.append_data_file(self._described(each))
        transaction.commit_transaction()

    def _remove_strays(self, older_than: datetime) -> int:
        """Remove data, manifest and metadata files that the table does not name."""
        location = self._table.location()
        system, root = fs.FileSystem.from_uri(_uri(location))
        named = {_path(each) for each in self._named()}
        removed = 0
        for each in system.get_file_info(fs.FileSelector(root, recursive=True)):
            old = each.mtime is not None and each.mtime.astimezone(UTC) < older_than
            if each.type is fs.FileType.File and old and _path(each.path) not in named:
                system.delete_file(each.path)
                removed += 1
        return removed

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


def _uri(location: str) -> str:
    return location if "://" in location else f"file://{location}"


def _path(location: str) -> str:
    return location.partition("://")[2].lstrip("/") if "://" in location else location.lstrip("/")
