"""Delta tables. Offsets are application transactions of the commit, one per partition.

`txn` actions stay in checkpoints when old commits are cleaned up, so the offsets are never lost.
delta-rs refuses a commit if another one moved the same application transaction since the table was
read; appends beside a compaction pass.
"""

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction

from headrace.landing.data_file import DataFile
from headrace.landing.delta_file import DeltaFiles
from headrace.landing.error import LandingError, TableConflict, TableUnavailable
from headrace.landing.source import PROPERTY, Source
from headrace.landing.table import Changes, TableStatus
from headrace.landing.time_partition import TimePartition
from headrace.model.table.table_name import TableName

_APPLICATION: Final = "headrace-land-"
_OFFSETS: Final = "headrace.offsets"
_DELETED: Final = "__deleted"


class DeltaLanding:
    """A Delta table in a folder."""

    def __init__(self, name: TableName, table: DeltaTable) -> None:
        self.name = name
        self._table = table
        self.source = Source.of(table.metadata().configuration.get(PROPERTY), name)
        by = self.source.partition_by
        self.partitioning = None if by is None else TimePartition.parse(by)
        self._columns = self._read_columns()

    @classmethod
    def open(cls, name: TableName) -> "DeltaLanding | None":
        """Return the table, or None if there is none."""
        with _reaching(name):
            if not DeltaTable.is_deltatable(str(name.path)):
                return None
            return cls(name, DeltaTable(str(name.path)))

    @classmethod
    def create(
        cls, name: TableName, columns: pa.Schema, source: Source, offsets: Mapping[int, int]
    ) -> "DeltaLanding":
        """Create the table."""
        by = None if source.partition_by is None else TimePartition.parse(source.partition_by)
        whole = columns if by is None else columns.append(pa.field(by.name, pa.string()))
        with _reaching(name):
            name.path.mkdir(parents=True, exist_ok=True)
            table = DeltaTable.create(
                str(name.path),
                whole,
                mode="error",
                partition_by=None if by is None else [by.name],
                configuration={PROPERTY: source.as_json()},
                commit_properties=_properties(offsets),
                raise_if_key_not_exists=False,
            )
        return cls(name, table)

    @property
    def location(self) -> str:
        # As the user names it: file:// says that all machines mount the folder.
        return self.name.name

    @property
    def columns(self) -> pa.Schema:
        return self._columns

    @property
    def file_schema(self) -> pa.Schema:
        return self._columns

    def refresh(self) -> None:
        with _reaching(self.name):
            self._table.update_incremental()
        self._columns = self._read_columns()

    def offsets(self, partitions: Iterable[int]) -> dict[int, int]:
        with _reaching(self.name):
            found = {
                each: self._table.transaction_version(_APPLICATION + str(each))
                for each in partitions
            }
        return {each: offset for each, offset in found.items() if offset is not None}

    def rows(self) -> int:
        with _reaching(self.name):
            added = pa.table(self._table.get_add_actions(flatten=True))
        return int(pc.sum(added.column("num_records")).as_py() or 0)

    def files(self) -> DeltaFiles:
        return DeltaFiles(self.name.path.absolute(), self._columns, self.partitioning)

    def create_file(self, partition: int | None) -> tuple[str, IO[bytes]]:
        return self.files().create_file(partition)

    def remove_file(self, path: str) -> None:
        self.files().remove_file(path)

    def append(self, files: Sequence[DataFile], offsets: Mapping[int, int]) -> None:
        now = int(time.time() * 1000)
        by = self.partitioning
        actions: list[AddAction | RemoveAction] = [
            AddAction(
                each.path,
                each.size_bytes,
                {} if by is None else {by.name: by.text(each.partition)},
                now,
                True,
                _statistics(each.metadata),
            )
            for each in files
        ]
        with _reaching(self.name):
            self._table.create_write_transaction(
                actions,
                "append",
                self._table.schema(),
                [] if by is None else [by.name],
                commit_properties=_properties(self._moved(offsets)),
            )
        self.refresh()

    def merge(self, changes: Changes, offsets: Mapping[int, int]) -> None:
        names = [*self._columns.names]
        by = self.partitioning
        mark = _mark_name(self._columns)
        rows = _marked(changes.rows, self._columns, mark, deleted=False)
        gone = _marked(changes.deleted, self._columns, mark, deleted=True)
        source = pa.concat_tables([rows, gone])
        if by is not None:
            source = source.append_column(by.name, by.texts(source.column(by.column)))
            names.append(by.name)
        values = {_quoted(each): f"s.{_quoted(each)}" for each in names}
        with _reaching(self.name):
            (
                self._table.merge(
                    source,
                    " AND ".join(f"t.{each} = s.{each}" for each in map(_quoted, changes.keys)),
                    source_alias="s",
                    target_alias="t",
                    streamed_exec=False,
                    commit_properties=_properties(self._moved(offsets)),
                )
                .when_matched_delete(f"s.{_quoted(mark)}")
                .when_matched_update(values)
                .when_not_matched_insert(values, f"NOT s.{_quoted(mark)}")
                .execute()
            )
        self.refresh()
        if self._moved(offsets):  # no row changed, and delta-rs made no commit
            self.append([], offsets)

    def add_columns(self, fields: Sequence[pa.Field]) -> None:
        added = DeltaSchema.from_arrow(pa.schema([each.with_nullable(True) for each in fields]))
        with _reaching(self.name):
            self._table.alter.add_columns(added.fields)
        self.refresh()

    def compact(self, *, target_bytes: int) -> tuple[int, int]:
        with _reaching(self.name):
            done = self._table.optimize.compact(target_size=target_bytes)
        return int(done["numFilesRemoved"]), int(done["numFilesAdded"])

    def expire(self, *, older_than_ms: int) -> tuple[int, int]:
        hours = (time.time() * 1000 - older_than_ms) / 3_600_000
        with _reaching(self.name):
            before = len(self._logged())
            removed = self._table.vacuum(
                # Rather too long than too short; nothing but --force asks for less than one.
                retention_hours=max(0, math.ceil(hours) if hours >= 1 else 0),
                dry_run=False,
                enforce_retention_duration=False,
                full=True,
            )
            self._table.create_checkpoint()
            self._table.cleanup_metadata()
        # Cleaning up is a commit itself.
        return max(0, before - len(self._logged())), len(removed)

    def status(self, *, small_bytes: int) -> TableStatus:
        with _reaching(self.name):
            added = pa.table(self._table.get_add_actions(flatten=True))
            last = self._table.history(1)
        sizes = added.column("size_bytes").to_pylist()
        rows = added.column("num_records").to_pylist()
        return TableStatus(
            rows=sum(each or 0 for each in rows),
            files=len(sizes),
            size_bytes=sum(sizes),
            small_files=sum(each < small_bytes for each in sizes),
            version=self._table.version(),
            snapshots=len(self._logged()),
            changed_ms=int(last[0]["timestamp"]) if last else None,
        )

    def _logged(self) -> list[Path]:
        return sorted((self.name.path / "_delta_log").glob("*.json"))

    def _moved(self, offsets: Mapping[int, int]) -> dict[int, int]:
        """Return the offsets that the table does not have yet."""
        have = self.offsets(offsets)
        return {each: offset for each, offset in offsets.items() if have.get(each) != offset}

    def _read_columns(self) -> pa.Schema:
        schema = pa.schema(self._table.schema().to_arrow())
        hidden = None if self.partitioning is None else self.partitioning.name
        return pa.schema([_plain(each) for each in schema if each.name != hidden])


def _properties(offsets: Mapping[int, int]) -> CommitProperties:
    texts = {str(each): offset for each, offset in sorted(offsets.items())}
    return CommitProperties(
        custom_metadata={_OFFSETS: json.dumps(texts)},
        app_transactions=[
            Transaction(_APPLICATION + each, offset) for each, offset in texts.items()
        ],
    )


def _mark_name(columns: pa.Schema) -> str:
    """Return a name that no column has, in any case."""
    taken = {each.lower() for each in columns.names}
    name = _DELETED
    while name in taken:
        name += "_"
    return name


def _quoted(name: str) -> str:
    """Return a name as delta-rs reads it in expressions."""
    return "`" + name.replace("`", "``") + "`"


def _marked(rows: pa.Table, columns: pa.Schema, mark: str, *, deleted: bool) -> pa.Table:
    """Return rows with all columns of the table, null where they have none, and a mark."""
    arrays = [
        rows.column(each.name).cast(each.type)
        if each.name in rows.column_names
        else pa.chunked_array([pa.nulls(rows.num_rows, each.type)])
        for each in columns
    ]
    marks = pa.chunked_array([pa.repeat(pa.scalar(deleted), rows.num_rows)])
    fields = [each.with_nullable(True) for each in columns]
    return pa.table([*arrays, marks], schema=pa.schema([*fields, (mark, pa.bool_())]))


def _plain(each: pa.Field) -> pa.Field:
    return pa.field(each.name, _plain_type(each.type), each.nullable)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return a type as the client and Parquet have it: without views and large offsets."""
    if pa.types.is_struct(kind):
        return pa.struct([_plain(each) for each in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_plain_type(kind.key_type), _plain(kind.item_field))
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    return kind


def _statistics(footer: pq.FileMetaData) -> str:
    """Return Delta's statistics of a file: how many rows, and ranges of numbers and times."""
    found: dict[str, Any] = {"numRecords": footer.num_rows, "minValues": {}, "maxValues": {}}
    nulls: dict[str, int] = {}
    for at in range(footer.num_columns):
        parts = [footer.row_group(group).column(at) for group in range(footer.num_row_groups)]
        name = footer.schema.column(at).path
        known = [each.statistics for each in parts]
        if "." in name or not known or not all(each is not None for each in known):
            continue
        if all(each.has_null_count for each in known):
            nulls[name] = sum(each.null_count for each in known)
        ranges = [each for each in known if each.has_min_max]
        if len(ranges) == len(known):
            low, high = min(each.min for each in ranges), max(each.max for each in ranges)
            if isinstance(low, int) and not isinstance(low, bool):
                found["minValues"][name], found["maxValues"][name] = low, high
            elif isinstance(low, datetime):
                found["minValues"][name] = _moment(low)
                found["maxValues"][name] = _moment(high + timedelta(microseconds=999))
    found["nullCount"] = nulls
    return json.dumps(found)


def _moment(time_: datetime) -> str:
    text = time_.astimezone(UTC).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z"


@contextmanager
def _reaching(name: TableName) -> Iterator[None]:
    """Translate the errors of delta-rs."""
    try:
        yield
    except CommitFailedError as error:
        raise TableConflict(f"{name} was changed by another commit: {error}") from error
    except (DeltaError, OSError) as error:
        raise TableUnavailable(f"{name} cannot be read or written: {error}") from error
    except ValueError as error:
        raise LandingError(f"{name} cannot take this: {error}") from error
