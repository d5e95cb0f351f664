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

# Converting a row to text needs several times its bytes.
_CHUNK_ROWS = 50_000
_BYTES_IN_FLIGHT = 32 * 1024 * 1024


class ExportRange(NamedTuple):
    """Offsets from `first` up to `past`, which is left out."""

    first: int
    past: int


@dataclass(slots=True)
class Exported:
    """What was exported of one partition."""

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
    """Return the offsets to export: from `first` up to `past`, within what each log holds now.

    Raises:
        ClientError: the offsets of a partition cannot be found.
    """
    partitions = list(partitions)
    starts = resolve(pool, first, partitions, read_committed=read_committed)
    ends = resolve(pool, past, partitions, read_committed=read_committed)
    logs = extents(pool, partitions, read_committed=read_committed)
    ranges = {}
    for each in partitions:
        start, end, log = starts[each], ends[each], logs[each]
        for outcome in (start, end, log):
            if isinstance(outcome, ClientError):
                raise ClientError(f"cannot read {each}: {outcome}")
        assert isinstance(start, int)
        assert isinstance(end, int)
        assert not isinstance(log, ClientError)
        begin = min(max(start, log.start), log.end)
        ranges[each] = ExportRange(begin, max(begin, min(end, log.end)))
    return ranges


class Export:
    """Copies the records of some partitions into files of one format.

    Attributes:
        done: what was exported of each partition that had records.
    """

    def __init__(
        self,
        settings: ClientSettings,
        ranges: Mapping[TopicPartition, ExportRange],
        kind: FileFormat,
        key_format: FieldFormat | None,
        value_format: FieldFormat | None,
        read_committed: bool,
    ) -> None:
        self.done: dict[int, Exported] = {}
        self._settings = settings
        self._ranges = ranges
        self._format = (kind, key_format, value_format)
        self._read_committed = read_committed

    def into_file(self, path: Path, advance: Advance, *, replace: bool) -> None:
        """Export all partitions into one file."""
        with partial_file(path, replace=replace) as written:
            self._fill(written, self._ranges, advance)

    def into_directory(self, path: Path, topic: str, advance: Advance) -> None:
        """Export each partition into a file of its own."""
        with partial_directory(path) as folder:
            for partition, offsets in self._ranges.items():
                name = f"{topic}-{partition.partition:05}.{self._format[0].value}"
                self._fill(folder / name, {partition: offsets}, advance)

    def _fill(
        self, path: Path, ranges: Mapping[TopicPartition, ExportRange], advance: Advance
    ) -> None:
        with closing(open_writer(path, *self._format)) as writer:
            self._copy(writer, ranges, advance)

    def _copy(
        self,
        writer: RecordFileWriter,
        ranges: Mapping[TopicPartition, ExportRange],
        advance: Advance,
    ) -> None:
        to_read = {
            each: ReadRange(*offsets)
            for each, offsets in ranges.items()
            if offsets.first < offsets.past
        }
        if not to_read:
            return
        positions = {each: offsets.first for each, offsets in ranges.items()}
        with Reader(
            self._settings,
            to_read,
            read_committed=self._read_committed,
            batch_rows=_CHUNK_ROWS,
            columns=SCHEMA.names[1:],
            max_bytes_in_flight=_BYTES_IN_FLIGHT,
        ) as reader:
            for chunk in reader:
                writer.write(chunk.partition, chunk.columns)
                self._count(chunk.partition.partition, chunk.columns)
                # Offsets without a record count too: they are part of the bar's total.
                advance(chunk.next_offset - positions[chunk.partition])
                positions[chunk.partition] = chunk.next_offset

    def _count(self, index: int, columns: pa.RecordBatch) -> None:
        offsets = columns.column("offset")
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        known = self.done.get(index)
        if known is None:
            self.done[index] = Exported(columns.num_rows, first, last)
        else:
            known.records += columns.num_rows
            known.last_offset = last
