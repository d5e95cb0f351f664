"""Lands batches whose records are in ranges of offsets, as Spark plans them.

Rule 1: the table's own offsets say what is in it. Records before them are left out, so a batch that
is repeated adds nothing, and one that another process landed in part adds the rest.
Rule 2: a batch that begins behind the table's offsets would leave a gap. It is refused.
Rule 3: tasks write files and the lander commits them, once per batch. If tasks find columns that
the table lacks, or the first dead letters, the table is changed and the batch is run again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from headrace.landing.batch_task import BatchTask, TaskFiles, check_size
from headrace.landing.change_set import ChangeSet
from headrace.landing.data_file import FileTarget, remove_files
from headrace.landing.error import LandingError, RecordsLost
from headrace.landing.local_file import check_local_files
from headrace.landing.offset_commit import OffsetCommit, Offsets
from headrace.landing.row.table_column import why_no_type
from headrace.landing.row.value_rows import PLACE
from headrace.landing.source import Source
from headrace.landing.table import Table
from headrace.landing.table_factory import create_table, open_table
from headrace.model.table.table_name import TableName
from headrace.serde.registry_client_settings import RegistryClientSettings

_MOST_ROUNDS: Final = 20

Run = Callable[[BatchTask], Sequence[TaskFiles]]
"""Lets processes do a task, each for a part of the batch, and returns what all of them wrote."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The offsets of a batch.

    Attributes:
        starts: where it begins, per partition; None for the first batch of a query, which begins
            where the table continues.
        ends: where it ends.
        follows_landed: whether this query has landed a batch before.
    """

    starts: Offsets | None
    ends: Offsets
    follows_landed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """How batches are landed.

    Attributes:
        catalog: properties of an Iceberg catalog, beside those of PyIceberg's configuration.
        columns: of the table; None lets records show them.
        registry: where the schemas of values are.
        retry_seconds: how long a table or catalog that does not answer is tried.
    """

    table: TableName
    catalog: Mapping[str, str] = field(repr=False)
    columns: pa.Schema | None
    registry: RegistryClientSettings | None = None
    retry_seconds: float = 60.0


class BatchLander:
    """Lands the batches of one topic in one table. One thread uses it.

    Args:
        source: what the table must have been made for, with the id of the topic.
        check_topic: called before a commit; raises if the topic is no longer the one of `source`.
        check_location: called with a table's location when it is opened or made; raises if tasks
            would write where a commit finds nothing.
    """

    def __init__(
        self,
        source: Source,
        options: BatchOptions,
        check_topic: Callable[[], None],
        check_location: Callable[[str], None] = lambda location: None,
    ) -> None:
        self._source = source
        self._options = options
        self._check_topic = check_topic
        self._check_location = check_location
        self._table: Table | None = None
        self._offsets: OffsetCommit | None = None

    def open(self) -> Table | None:
        """Return the table in its last state; None if there is none.

        Raises:
            LandingError: it was made for something else.
            TableUnavailable: it cannot be read.
        """
        if self._table is None:
            found = open_table(self._options.table, self._options.catalog)
            if found is not None:
                found.source.check(self._source, found.name)
                self._check_location(found.location)
            self._table = found
        else:
            self._table.refresh()
        return self._table

    def land(self, batch: Batch, run: Run) -> int:
        """Land a batch, unless it is in the table already. Return how many rows that added.

        Raises:
            RecordsLost: the table would have a gap.
            LandingError: the table cannot take the rows, or another process lands in it.
        """
        table = self.open()
        partitions = {*(batch.starts or {}), *batch.ends}
        have = {} if table is None else table.offsets(partitions)
        self._check_gap(batch, have, exists=table is not None)
        wanted = {
            each: end for each, end in batch.ends.items() if each not in have or have[each] < end
        }
        if not wanted:
            return 0
        if table is None and self._options.columns is not None:
            table = self._create(self._options.columns, batch)
        commits = None if table is None else self._commits(table, partitions)
        for _ in range(_MOST_ROUNDS):
            done = run(self._task(commits, partitions))
            if commits is not None and all(each.is_final for each in done):
                return self._commit(commits, done, wanted)
            if commits is None:
                columns = _merged(each.new_columns for each in done)
                if columns is None:
                    return self._without_columns(done)
                commits = self._commits(self._create(columns, batch), partitions)
            else:
                self._change(commits, done)
        raise LandingError(
            f"{self._options.table} lacked columns for a batch {_MOST_ROUNDS} times in a row"
        )

    def _commits(self, table: Table, partitions: Iterable[int]) -> OffsetCommit:
        options = self._options
        if self._offsets is None:
            self._offsets = OffsetCommit(table, options.catalog, options.retry_seconds)
        self._offsets.begin(table.offsets(partitions))
        return self._offsets

    def _create(self, columns: pa.Schema, batch: Batch) -> Table:
        options = self._options
        self._table = create_table(
            options.table, options.catalog, columns, self._source, batch.starts or {}
        )
        self._offsets = None
        self._check_location(self._table.location)
        return self._table

    def _task(self, commits: OffsetCommit | None, partitions: Iterable[int]) -> BatchTask:
        table = self._table if commits is not None else None
        dead = None if commits is None else commits.dead_letters
        return BatchTask(
            topic=self._source.topic,
            values=self._source.values,
            registry=self._options.registry,
            columns=None if table is None else table.columns,
            target=_files(table),
            dead_target=_files(dead),
            starts={} if commits is None else dict(commits.base),
            dead_starts={}
            if commits is None or dead is None
            else dict(commits.dead_offsets({*commits.base, *partitions})),
            keys=self._source.keys,
            envelope=self._source.envelope,
            partition_by=self._source.partition_by,
        )

    def _change(self, commits: OffsetCommit, done: Sequence[TaskFiles]) -> None:
        """Change the table as tasks need it, and remove what other tasks wrote."""
        table = self._table
        assert table is not None
        for each in done:
            remove_files(table.remove_file, [file.path for file in each.files])
            if each.dead_files:
                dead = commits.open_dead_letters()
                remove_files(dead.remove_file, [file.path for file in each.dead_files])
        columns = _merged(each.new_columns for each in done)
        if columns is not None:
            commits.add_columns(list(columns))
        if any(each.needs_dead_letters for each in done):
            commits.open_dead_letters()

    def _commit(
        self, commits: OffsetCommit, done: Sequence[TaskFiles], wanted: Mapping[int, int]
    ) -> int:
        self._check_topic()
        assert self._table is not None
        files = [file for each in done for file in each.files]
        check_local_files(self._table.location, files)
        dead = [file for each in done for file in each.dead_files]
        if dead:
            check_local_files(commits.open_dead_letters().location, dead)
            commits.append_dead(dead, wanted)
        if self._source.keys:
            return self._merge(commits, done, wanted)
        commits.append(files, wanted)
        return sum(each.rows for each in files)

    def _merge(
        self, commits: OffsetCommit, done: Sequence[TaskFiles], wanted: Mapping[int, int]
    ) -> int:
        """Commit changes, the last one of each key. Several tasks may have read one partition."""
        assert self._table is not None
        changes = [change for each in done for change in each.changes]
        check_size(sum(each.rows.nbytes for each in changes))
        collected = ChangeSet(self._source.keys)
        for each in sorted(changes, key=lambda change: (change.partition, change.offset)):
            collected.add(each.rows, each.deleted)
        count = collected.rows
        commits.merge(collected.take(self._table.columns), wanted)
        return count

    def _without_columns(self, done: Sequence[TaskFiles]) -> int:
        """Land nothing, because no record shows the columns of the table: there must be none."""
        if any(each.records for each in done):
            raise LandingError(
                f"no record of the first batch of {self._source.topic} shows the columns of "
                f"{self._options.table}: declare them with --columns, or land with --as raw"
            )
        return 0

    def _check_gap(self, batch: Batch, have: Offsets, *, exists: bool) -> None:
        if batch.starts is None or (not exists and not batch.follows_landed):
            return
        table = self._options.table
        what = "start with another --checkpoint, which continues where the table is"
        for each, start in sorted(batch.starts.items()):
            at = have.get(each)
            if at is None or at < start:
                raise RecordsLost(
                    f"{table} has partition {each} of {self._source.topic} up to offset {at or 0}, "
                    f"and the checkpoint goes on at {start}: the table was replaced, removed or "
                    f"rolled back; {what}"
                )


def _files(table: Table | None) -> FileTarget | None:
    return None if table is None else table.files()


def _merged(found: Iterable[Sequence[pa.Field]]) -> pa.Schema | None:
    """Return the columns that tasks found, the first type of each unless one holds both.

    Of names that differ only in case the first becomes a column: the next round of tasks makes dead
    letters of the others.
    """
    fields: dict[str, pa.Field] = {}
    taken: dict[str, str] = {}
    for columns in found:
        for each in columns:
            if taken.setdefault(each.name.lower(), each.name) != each.name:
                continue
            have = fields.setdefault(each.name, each)
            if have.type != each.type:
                fields[each.name] = _wider(have, each)
    values = [each for each in fields.values() if each.name not in PLACE.names]
    places = [each for each in PLACE if each.name in fields]
    return pa.schema([*values, *places]) if fields else None


def _wider(one: pa.Field, other: pa.Field) -> pa.Field:
    try:
        schemas = [pa.schema([one]), pa.schema([other])]
        both = pa.unify_schemas(schemas, promote_options="permissive").field(0)
        return one if why_no_type(both.type) else both
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return one
