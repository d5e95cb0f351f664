"""The work of `topic export`: ranges of partitions into files."""

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from headrace.cli.record.file import RecordFileWriter, open_writer
from headrace.cli.record.file_format import FieldFormat, FileFormat
from headrace.cli.record.offset_spec import OffsetSpec, resolve
from headrace.cli.record.partial_file import partial_directory, partial_file
from headrace.cli.record.schema import SCHEMA
from headrace.cli.terminal.progress import Advance
from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import extents
from headrace.client.read.read_range import ReadRange
from headrace.client.read.reader import Reader
from headrace.client.settings import ClientSettings
from headrace.model.ids import TopicPartition

# A row of text costs several times its bytes while it is being written.
_CHUNK_ROWS = 50_000
_BYTES_IN_FLIGHT = 32 * 1024 * 1024


class ExportRange(NamedTuple):
    """Offsets from `first` up to, and without, `past`."""

    first: int
    past: int


@dataclass(slots=True)
class Exported:
    """What was written of one partition."""

    records: int
    first_offset: int
    last_offset: int


def export_ranges(
    pool: ConnectionPool,
    partitions: Iterable[TopicPartition],
    first: OffsetSpec,
    past: OffsetSpec,
    *,
    read_committed: bool,
) -> dict[TopicPartition, ExportRange]:
    """What two places stand for now, within what each log holds.

    Raises:
        ClientError: a partition does not tell.
    """
    wanted = list(partitions)
    starts = resolve(pool, first, wanted, read_committed=read_committed)
    ends = resolve(pool, past, wanted, read_committed=read_committed)
    logs = extents(pool, wanted, read_committed=read_committed)
    found = {}
    for each in wanted:
        start, end, log = starts[each], ends[each], logs[each]
        for outcome in (start, end, log):
            if isinstance(outcome, ClientError):
                raise ClientError(f"cannot read {each}: {outcome}")
        assert isinstance(start, int)
        assert isinstance(end, int)
        assert not isinstance(log, ClientError)
        begin = min(max(start, log.start), log.end)
        found[each] = ExportRange(begin, max(begin, min(end, log.end)))
    return found


class Export:
    """Some partitions' records, on their way into files of one kind.

    `done` has what was written of each partition that had any.
    """

    def __init__(
        self,
        settings: ClientSettings,
        wanted: Mapping[TopicPartition, ExportRange],
        kind: FileFormat,
        key_format: FieldFormat | None,
        value_format: FieldFormat | None,
        read_committed: bool,
    ) -> None:
        self.done: dict[int, Exported] = {}
        self._settings = settings
        self._wanted = wanted
        self._how = (kind, key_format, value_format)
        self._read_committed = read_committed

    def into_file(self, path: Path, advance: Advance, *, replace: bool) -> None:
        """All partitions into one file."""
        with partial_file(path, replace=replace) as written:
            self._fill(written, self._wanted, advance)

    def into_directory(self, path: Path, topic: str, advance: Advance) -> None:
        """Each partition into a file of its own."""
        with partial_directory(path) as folder:
            for partition, span in self._wanted.items():
                name = f"{topic}-{partition.partition:05}.{self._how[0].value}"
                self._fill(folder / name, {partition: span}, advance)

    def _fill(
        self, path: Path, wanted: Mapping[TopicPartition, ExportRange], advance: Advance
    ) -> None:
        with closing(open_writer(path, *self._how)) as writer:
            self._copy(writer, wanted, advance)

    def _copy(
        self,
        writer: RecordFileWriter,
        wanted: Mapping[TopicPartition, ExportRange],
        advance: Advance,
    ) -> None:
        ranges = {each: ReadRange(*span) for each, span in wanted.items() if span.first < span.past}
        if not ranges:
            return
        positions = {each: span.first for each, span in wanted.items()}
        with Reader(
            self._settings,
            ranges,
            read_committed=self._read_committed,
            batch_rows=_CHUNK_ROWS,
            columns=SCHEMA.names[1:],
            max_bytes_in_flight=_BYTES_IN_FLIGHT,
        ) as reader:
            for chunk in reader:
                writer.write(chunk.partition, chunk.columns)
                self._note(chunk.partition.partition, chunk.columns)
                # Offsets that hold no records count for the bar too: it was told of them.
                advance(chunk.next_offset - positions[chunk.partition])
                positions[chunk.partition] = chunk.next_offset

    def _note(self, index: int, columns: pa.RecordBatch) -> None:
        offsets = columns.column("offset")
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        known = self.done.get(index)
        if known is None:
            self.done[index] = Exported(columns.num_rows, first, last)
        else:
            known.records += columns.num_rows
            known.last_offset = last
