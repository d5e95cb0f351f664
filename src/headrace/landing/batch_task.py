"""A part of a batch: one process reads some records and writes files, another one commits them.

Crash: files of a task that died are in no commit, and `headrace table expire` removes them.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from headrace.client.read.chunk import Chunk
from headrace.landing.data_file import DataFile, FileSet, FileTarget
from headrace.landing.dead_letter import dead_letters, not_written_yet
from headrace.landing.error import LandingError
from headrace.landing.row.choice import row_decoder
from headrace.landing.row.decoded import RowDecoder
from headrace.landing.row.value_rows import PLACE
from headrace.model.ids import TopicPartition
from headrace.records.column import HEADERS
from headrace.serde.registry_client import RegistryClient
from headrace.serde.registry_client_settings import RegistryClientSettings

# The driver merges the changes of a batch in memory, as `headrace land` does those of a commit.
_MOST_CHANGED: Final = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TaskChange:
    """Changes of one partition, in the order of the log.

    Attributes:
        offset: that of the first one.
        deleted: per row whether it removes the row of its key; None: none does.
    """

    partition: int
    offset: int
    rows: pa.RecordBatch
    deleted: pa.BooleanArray | None


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """What a task wrote; nothing if the table must change first.

    Attributes:
        records: how many records the task has read.
        changes: of an upsert, instead of files.
        new_columns: those that the table lacks.
        needs_dead_letters: whether there are dead letters and no table for them.
    """

    records: int
    files: tuple[DataFile, ...] = ()
    dead_files: tuple[DataFile, ...] = ()
    new_columns: tuple[pa.Field, ...] = ()
    needs_dead_letters: bool = False
    changes: tuple[TaskChange, ...] = ()

    @property
    def is_final(self) -> bool:
        """Whether the files can be committed."""
        return not self.new_columns and not self.needs_dead_letters


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchTask:
    """Makes files of records. It pickles, and any number of processes run it beside each other.

    Attributes:
        values: raw, json or registry.
        columns: those of the table; None if there is no table yet: the task only looks for columns.
        target, dead_target: where files go; None if there is no such table yet.
        starts: the first offset that the table lacks, per partition; records before are left out.
        dead_starts: the same of the dead letters.
        keys: the columns that name a row: the task then returns changes instead of writing files.
        envelope: debezium, if values are change events.
        partition_by: the partitions of the table, also if there is none yet.
    """

    topic: str
    values: str
    registry: RegistryClientSettings | None = None
    columns: pa.Schema | None = None
    target: FileTarget | None = None
    dead_target: FileTarget | None = None
    starts: Mapping[int, int] = field(default_factory=dict)
    dead_starts: Mapping[int, int] = field(default_factory=dict)
    keys: tuple[str, ...] = ()
    envelope: str | None = None
    partition_by: str | None = None

    def run(self, batches: Iterable[pa.RecordBatch]) -> TaskFiles:
        """Write files of records with the columns partition, offset, timestamp, key, value and
        headers; those of a partition are in their order.

        Raises:
            OSError: a file cannot be written.
            LandingError: there are more changes than fit into memory.
            RegistryError: the registry does not answer.
        """
        with ExitStack() as stack:
            registry = None
            if self.registry is not None:
                registry = stack.enter_context(RegistryClient(self.registry))
            decoder = row_decoder(
                self.values,
                # Change events are read by the columns of the rows in them.
                columns=self._value_columns() if self.envelope and self.values == "json" else None,
                keys=self.keys,
                envelope=self.envelope,
                registry=registry,
                partition_by=self.partition_by,
            )
            if self.columns is not None:
                decoder.use(self.columns)
            return self._written(batches, decoder)

    def _written(self, batches: Iterable[pa.RecordBatch], decoder: RowDecoder) -> TaskFiles:
        files = None if self.target is None else FileSet(self.target)
        dead_files = None if self.dead_target is None else FileSet(self.dead_target)
        records, needs_dead = 0, False
        changes: list[TaskChange] = []
        size = 0
        try:
            for chunk in self._chunks(batches):
                records += chunk.columns.num_rows
                decoded = decoder.decode(chunk)
                dead = dead_letters(chunk, decoded)
                if dead is not None:
                    dead = not_written_yet(dead, self.dead_starts)
                    needs_dead |= dead.num_rows > 0 and dead_files is None
                if needs_dead or self._new_columns(decoder):
                    continue  # the batch is run again, and others may lack more columns
                if self.keys and decoded.rows.num_rows:
                    size += decoded.rows.nbytes
                    check_size(size)
                    at = decoded.rows.column("_offset")[0].as_py()
                    place = chunk.partition.partition
                    changes.append(TaskChange(place, at, decoded.rows, decoded.deleted))
                elif files is not None and decoded.rows.num_rows:
                    files.write(decoded.rows)
                if dead_files is not None and dead is not None and dead.num_rows:
                    dead_files.write(dead)
            new = self._new_columns(decoder)
            if needs_dead or new or files is None:
                _discard(files, dead_files)
                return TaskFiles(records, new_columns=new, needs_dead_letters=needs_dead)
            dead_done = () if dead_files is None else tuple(dead_files.finish())
            done = tuple(files.finish())
            return TaskFiles(records, done, dead_done, changes=tuple(changes))
        except BaseException:
            _discard(files, dead_files)
            raise

    def _value_columns(self) -> pa.Schema | None:
        """Return the table's columns without those of the record's place."""
        if self.columns is None:
            return None
        return pa.schema([each for each in self.columns if each.name not in PLACE.names])

    def _new_columns(self, decoder: RowDecoder) -> tuple[pa.Field, ...]:
        known = () if self.columns is None else self.columns.names
        return tuple(each for each in decoder.columns or () if each.name not in known)

    def _chunks(self, batches: Iterable[pa.RecordBatch]) -> Iterator[Chunk]:
        for batch in batches:
            numbers = batch.column("partition")
            for partition in pc.unique(numbers).to_pylist():
                wanted = pc.and_(
                    pc.equal(numbers, partition),
                    pc.greater_equal(batch.column("offset"), self.starts.get(partition, 0)),
                )
                rows = batch if pc.all(wanted).as_py() else batch.filter(wanted)
                if rows.num_rows:
                    last = rows.column("offset")[-1].as_py()
                    yield Chunk(
                        TopicPartition(self.topic, partition), _record_columns(rows), last + 1
                    )


def check_size(size: int) -> None:
    """Check that changes fit into memory.

    Raises:
        LandingError: they do not.
    """
    if size > _MOST_CHANGED:
        raise LandingError(
            f"a batch has more than {_MOST_CHANGED >> 20} MiB of changes, which are merged in "
            "memory: bound it with -X maxOffsetsPerTrigger=100000"
        )


def _discard(*sets: FileSet | None) -> None:
    for each in sets:
        if each is not None:
            each.discard()


def _record_columns(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return records as the client has them, where one without headers has an empty list."""
    headers = rows.column("headers").cast(HEADERS)
    if headers.null_count:
        ends = pa.concat_arrays([headers]).offsets
        headers = pa.ListArray.from_arrays(ends, headers.flatten(), type=HEADERS)
    columns = {
        "offset": rows.column("offset"),
        "timestamp": rows.column("timestamp"),
        "key": rows.column("key").cast(pa.binary()),
        "value": rows.column("value").cast(pa.binary()),
        "headers": headers,
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
