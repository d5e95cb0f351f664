"""The loop of `topic consume`: fetch, decode, print, move on.

Rule 1: a chunk is printed whole: a stop takes effect between two steps (see `Stop`).
Rule 2: a position moves, and with a group is committed, only after its records were printed. So a
crash prints some records twice and loses none.
"""

import select
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from headrace.cli.record.format import RecordFormat, Records
from headrace.cli.record.undecodable_record import UndecodableRecord
from headrace.cli.terminal.stop import Stop
from headrace.client.error import BrokerError, ClientError
from headrace.client.group.member import GroupMember
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.batch_reader import BatchReader, FetchedBatches
from headrace.client.read.offset_lookup import extents
from headrace.model.ids import TopicPartition
from headrace.records.decode import decode
from headrace.wire.error_code import ErrorCode

_COMMIT_SECONDS = 5.0


@dataclass(slots=True)
class Consumption:
    """Prints the records of some partitions, and knows how many it has printed.

    Attributes:
        past: the offset to stop before in each partition; one without it is read without end.
        limit: how many records to print at most.
        advance: called with the number of records printed since the last call.
    """

    pool: ConnectionPool
    stop: Stop
    format: RecordFormat
    read_committed: bool = False
    past: Mapping[TopicPartition, int] = field(default_factory=dict)
    limit: int | None = None
    advance: Callable[[int], object] = lambda count: None
    printed: int = 0

    @property
    def is_full(self) -> bool:
        return self.limit is not None and self.printed >= self.limit

    def run(
        self,
        positions: Mapping[TopicPartition, int],
        discover: Callable[[], Iterable[TopicPartition]] | None = None,
    ) -> None:
        """Read partitions from the given positions until everything asked for is printed.

        Args:
            discover: returns the partitions that exist now; new ones are read from their start.

        Raises:
            KeyboardInterrupt: a signal came while the loop waited for records.
        """
        reader = self._reader(positions)
        age_seconds = self.pool.settings.metadata_max_age_ms / 1000
        next_discovery = time.monotonic() + age_seconds
        seen = set(positions)
        while reader.positions and not self.is_full:
            with self.stop.waiting():
                fetched = reader.poll()
                if discover is not None and time.monotonic() >= next_discovery:
                    next_discovery = time.monotonic() + age_seconds
                    reader.add({each: 0 for each in discover() if each not in seen})
                    seen |= set(reader.positions)
            self._print_all(reader, fetched)

    def run_in_group(
        self,
        member: GroupMember,
        start: Callable[[list[TopicPartition]], Mapping[TopicPartition, int]],
    ) -> None:
        """Read the partitions that the group assigns to us, from their committed offsets.

        Args:
            start: returns where to begin in partitions without a committed offset.
        """
        reader = self._reader({})
        committed: dict[TopicPartition, int] = {}
        try:
            while not self.is_full:
                with self.stop.waiting():
                    reader, committed = self._join(member, start)
                next_commit = time.monotonic() + _COMMIT_SECONDS
                while not self.is_full:
                    with self.stop.waiting():
                        if not member.is_current():
                            break
                        fetched = reader.poll() if reader.positions else self._idle()
                    self._print_all(reader, fetched)
                    if time.monotonic() >= next_commit:
                        next_commit = time.monotonic() + _COMMIT_SECONDS
                        self._commit(member, reader, committed)
                self._commit(member, reader, committed)
        except KeyboardInterrupt:
            self._commit(member, reader, committed)
            raise
        finally:
            member.leave()

    def _join(
        self,
        member: GroupMember,
        start: Callable[[list[TopicPartition]], Mapping[TopicPartition, int]],
    ) -> tuple[BatchReader, dict[TopicPartition, int]]:
        partitions = member.join()
        committed = member.committed()
        new = [each for each in partitions if each not in committed]
        positions = {each: committed[each] for each in partitions if each in committed}
        if new:
            positions |= start(new)
        return self._reader(positions), committed

    def _idle(self) -> list[FetchedBatches]:
        """Wait for the next heartbeat: with more members than partitions there is nothing to
        fetch."""
        time.sleep(self.pool.settings.fetch_max_wait_ms / 1000)
        return []

    def _commit(
        self, member: GroupMember, reader: BatchReader, committed: dict[TopicPartition, int]
    ) -> None:
        moved = {
            partition: position
            for partition, position in reader.positions.items()
            if committed.get(partition) != position
        }
        if moved and member.commit(moved):
            committed |= moved

    def _reader(self, positions: Mapping[TopicPartition, int]) -> BatchReader:
        unfinished = {
            partition: position
            for partition, position in positions.items()
            if partition not in self.past or position < self.past[partition]
        }
        return BatchReader(self.pool, unfinished, read_committed=self.read_committed)

    def _print_all(self, reader: BatchReader, answers: list[FetchedBatches]) -> None:
        for fetched in answers:
            if fetched.error is not None:
                self._handle(reader, fetched, fetched.error)
            elif len(fetched.data) and not self.is_full:
                self._print(reader, fetched)
        sys.stdout.buffer.flush()
        _check_output()

    def _print(self, reader: BatchReader, fetched: FetchedBatches) -> None:
        partition, past = fetched.partition, self.past.get(fetched.partition)
        needed = dict.fromkeys(("offset", *self.format.columns))
        # One call may leave batches over (one that is cut off, or too large to decompress at once):
        # the next fetch returns them again.
        decoded = decode(
            fetched.data,
            start_offset=fetched.offset,
            end_offset=past,
            aborted=fetched.aborted,
            columns=list(needed),
        )
        columns, position = decoded.columns, decoded.next_offset
        if self.limit is not None and columns.num_rows > self.limit - self.printed:
            columns = columns.slice(0, self.limit - self.printed)
            position = _last_offset(columns) + 1
        try:
            self._write(partition, columns)
        except UndecodableRecord as error:
            self._write(partition, columns.slice(0, error.row))
            sys.stdout.buffer.flush()
            raise
        reader.positions[partition] = position
        if past is not None and position >= past:
            del reader.positions[partition]

    def _write(self, partition: TopicPartition, columns: pa.RecordBatch) -> None:
        if columns.num_rows:
            records = Records(partition, columns, self.printed)
            sys.stdout.buffer.write(self.format.render(records))
            self.printed += columns.num_rows
            self.advance(columns.num_rows)

    def _handle(self, reader: BatchReader, fetched: FetchedBatches, error: BrokerError) -> None:
        partition = fetched.partition
        if error.code is not ErrorCode.offset_out_of_range:
            raise ClientError(f"cannot read {partition}: {error}")
        extent = extents(self.pool, [partition])[partition]
        if isinstance(extent, ClientError):
            raise ClientError(f"cannot read {partition}: {extent}")
        if fetched.offset < extent.start:
            _warn(
                f"{partition} begins at {extent.start} now: "
                f"reading from there, not from {fetched.offset}"
            )
            reader.positions[partition] = extent.start
            return
        if fetched.offset <= extent.end:
            return  # the log has grown meanwhile
        del reader.positions[partition]
        text = f"{partition} ends at {extent.end}, before offset {fetched.offset}"
        if not reader.positions:
            raise ClientError(f"{text}: write -o end to read new records only")
        _warn(f"{text}: it is left out")


def _check_output() -> None:
    """Raise BrokenPipeError if the reader of our output is gone (`| head`). The next write would
    raise it too, but may be hours away."""
    try:
        descriptor = sys.stdout.fileno()
    except OSError:
        return  # standard output is no file of the operating system
    poll = select.poll()
    poll.register(descriptor, 0)
    if any(events & select.POLLERR for _, events in poll.poll(0)):
        raise BrokenPipeError


def _last_offset(columns: pa.RecordBatch) -> int:
    return int(columns.column("offset")[-1].as_py())


def _warn(text: str) -> None:
    print(f"headrace: {text}", file=sys.stderr)
