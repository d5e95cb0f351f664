"""Lands a topic in a table: reads, decodes, and hands rows to the thread that writes them.

Two threads work beside the reader's own: this one decodes, the other writes files and commits. The
rows between them are bounded, so a slow disk slows the reading. After a failure the writing thread
does nothing more.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Final
from uuid import UUID

from headrace.client.error import BrokerError, ClientError, PositionOutOfRange
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.chunk import Chunk
from headrace.client.read.read_range import LogEdge, ReadRange
from headrace.client.read.reader import BYTES_IN_FLIGHT, Reader
from headrace.client.settings import ClientSettings
from headrace.landing.committer import Committer, Landed
from headrace.landing.dead_letter import dead_letters
from headrace.landing.error import LandingError, RecordsLost
from headrace.landing.row.decoded import DecodedRows, RowDecoder
from headrace.landing.source import Source
from headrace.landing.table import Table
from headrace.landing.table_factory import create_table, open_table
from headrace.model.ids import TopicPartition
from headrace.model.table.table_name import TableName
from headrace.wire.error_code import ErrorCode

_Positions = dict[TopicPartition, int | LogEdge]
_COLUMNS: Final = ("offset", "timestamp", "key", "value", "headers")
_MOST_WAITING: Final = 4
_POLL_SECONDS: Final = 0.25
# Changes of an upsert wait in memory.
_MOST_CHANGED: Final = 128 * 1024 * 1024
_PARTITIONS_EVERY: Final = 10.0
# Records that come before the first one that shows the columns of the table.
_MOST_HELD: Final = 64 * 1024 * 1024
# Offsets move without rows where transactions were aborted.
_POSITIONS_EVERY: Final = 60.0
_GONE: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.inconsistent_topic_id,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LandingOptions:
    """How a topic is landed.

    Attributes:
        catalog: properties of an Iceberg catalog, beside those of PyIceberg's configuration.
        start: where to begin, the first time.
        follow: whether to go on with new records; otherwise end with those of now.
        every_seconds: how long rows wait for a commit.
        most_rows, most_bytes: of a commit, roughly; then it does not wait.
        retry_seconds: how long a table or catalog that does not answer is tried.
        skip_lost: go on behind records that the topic no longer has.
        bytes_in_flight: how many fetched bytes may wait to be decoded.
    """

    table: TableName
    catalog: Mapping[str, str] = field(default_factory=dict)
    start: LogEdge = LogEdge.EARLIEST
    follow: bool = True
    every_seconds: float = 5.0
    most_rows: int = 5_000_000
    most_bytes: int = 512 * 1024 * 1024
    retry_seconds: float = 60.0
    skip_lost: bool = False
    bytes_in_flight: int = BYTES_IN_FLIGHT


@dataclass(slots=True)
class _Uncommitted:
    rows: int = 0
    since: float | None = None


class Lander:
    """Lands one topic in one table.

    Args:
        source: what the table must have been made for, without the topic's id, which is looked up.
        decoder: makes rows of records.
        committed: called after every commit, by the writing thread.
        lost: called with a sentence when records were skipped.
        making: returns what the table is made in; it may refuse the table.

    Example:
        Lander(settings, Source(topic="clicks", topic_id=None), RawDecoder(), options).run()

    Raises:
        LandingError: from `run`: the table is another topic's, records are gone, or another process
            lands in it.
        ClientError: the cluster cannot be read.
    """

    def __init__(
        self,
        settings: ClientSettings,
        source: Source,
        decoder: RowDecoder,
        options: LandingOptions,
        *,
        committed: Callable[[Landed], None] = lambda landed: None,
        lost: Callable[[str], None] = lambda sentence: None,
        making: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._settings = settings
        self._source = source
        self._decoder = decoder
        self._options = options
        self._committed, self._lost, self._making = committed, lost, making
        self._topic_id: UUID | None = None
        self._table: Table | None = None
        self._committer: Committer | None = None
        self._waiting: deque[Future[None]] = deque()
        self._uncommitted = _Uncommitted()
        self._held: list[Chunk] = []
        self._submitted: Mapping[int, int] = {}
        self._submitted_at = time.monotonic()
        self._failed = False

    def run(self, stopped: Callable[[], bool] = lambda: False) -> Landed:
        """Land records until there are none left, or `stopped` says so. Return what was landed."""
        with (
            ConnectionPool(self._settings) as pool,
            ThreadPoolExecutor(1, "landing") as writer,
        ):
            try:
                positions: _Positions | None = self._open(pool)
                while positions is not None:
                    positions = self._read(pool, positions, writer, stopped)
            except BaseException:
                if self._committer is not None:
                    writer.submit(self._committer.discard)
                raise
        return Landed() if self._committer is None else self._committer.landed

    def rows(self) -> int | None:
        """Return how many rows the table has, after `run`; None if there is no table."""
        return None if self._table is None else self._table.rows()

    def _open(self, pool: ConnectionPool) -> _Positions:
        """Open the table, and return where to read."""
        partitions = self._partitions(pool)
        table = open_table(self._options.table, self._options.catalog)
        if table is None:
            return dict.fromkeys(partitions, self._options.start)
        table.source.check(self._source, table.name)
        self._decoder.use(table.columns)
        offsets = table.offsets([each.partition for each in partitions])
        self._use(table, offsets)
        return {each: offsets.get(each.partition, LogEdge.EARLIEST) for each in partitions}

    def _partitions(self, pool: ConnectionPool) -> list[TopicPartition]:
        name = self._source.topic
        topic = pool.metadata([name]).topics.get(name)
        if topic is None or topic.error is not None:
            raise LandingError(
                f"there is no topic {name}"
                if topic is None or topic.error is None
                else f"topic {name} cannot be read: {topic.error}"
            )
        self._topic_id = topic.topic_id
        if self._source.topic_id is None and topic.topic_id is not None:
            self._source = replace(self._source, topic_id=str(topic.topic_id))
        return [topic.partition(index) for index in topic.partitions]

    def _use(self, table: Table, offsets: Mapping[int, int]) -> None:
        self._table = table
        self._committer = Committer(table, self._options.catalog, self._options.retry_seconds)
        self._committer.begin(offsets)
        self._submitted = offsets

    def _read(
        self,
        pool: ConnectionPool,
        positions: _Positions,
        writer: ThreadPoolExecutor,
        stopped: Callable[[], bool],
    ) -> _Positions | None:
        """Read until the end. Return positions to go on at, if records were skipped."""
        topic_id = self._topic_id
        with Reader(
            self._settings,
            {each: ReadRange(at) for each, at in positions.items()},
            read_committed=True,
            follow=self._options.follow,
            columns=_COLUMNS,
            max_bytes_in_flight=self._options.bytes_in_flight,
            topic_ids={} if topic_id is None else {self._source.topic: topic_id},
        ) as reader:
            if self._table is None and self._decoder.columns is not None:
                self._create(reader.positions)
            try:
                self._copy(pool, reader, writer, stopped)
            except PositionOutOfRange as error:
                self._commit(reader, writer)
                self._drain(0)
                return {**reader.positions, **self._behind(error)}
            except ClientError as error:
                self._commit(reader, writer)
                self._drain(0)
                raise self._explained(error) from error
        return None

    def _copy(
        self,
        pool: ConnectionPool,
        reader: Reader,
        writer: ThreadPoolExecutor,
        stopped: Callable[[], bool],
    ) -> None:
        looked = time.monotonic()
        while not reader.ended and not stopped():
            chunk = reader.poll(self._patience())
            if chunk is not None:
                self._take(chunk, reader, writer)
            self._drain(_MOST_WAITING)
            if self._is_due() or time.monotonic() - self._submitted_at > _POSITIONS_EVERY:
                self._commit(reader, writer)
            if self._options.follow and time.monotonic() - looked > _PARTITIONS_EVERY:
                looked = time.monotonic()
                self._add_partitions(pool, reader)
        if reader.ended and self._held:
            raise self._no_columns()
        self._commit(reader, writer)
        self._drain(0)

    def _take(self, chunk: Chunk, reader: Reader, writer: ThreadPoolExecutor) -> None:
        decoded = self._decoder.decode(chunk)
        if self._table is None:
            self._held.append(chunk)
            if self._decoder.columns is None:
                if sum(each.columns.nbytes for each in self._held) > _MOST_HELD:
                    raise self._no_columns()
                return
            held, self._held = self._held, []
            firsts = {
                each.partition: each.columns.column("offset")[0].as_py() for each in reversed(held)
            }
            self._create({**reader.positions, **firsts})
            for each in held[:-1]:
                self._put(each, self._decoder.decode(each), writer)
        self._put(chunk, decoded, writer)

    def _no_columns(self) -> LandingError:
        last = self._held[-1]
        what = (
            "land them with --as raw, or from new ones on with --start latest"
            if self._source.values == "registry"
            else "declare them with --schema, or in the topic's headrace.table.schema"
        )
        return LandingError(
            f"no record of {last.partition} up to offset {last.next_offset} shows the columns of "
            f"the table: {what}"
        )

    def _put(self, chunk: Chunk, decoded: DecodedRows, writer: ThreadPoolExecutor) -> None:
        committer = self._committer
        assert committer is not None
        dead = dead_letters(chunk, decoded)
        self._submit(writer, lambda: committer.add(decoded.rows, decoded.deleted, dead))
        self._uncommitted.rows += chunk.columns.num_rows
        if self._uncommitted.since is None:
            self._uncommitted.since = time.monotonic()

    def _create(self, positions: Mapping[TopicPartition, int]) -> None:
        columns = self._decoder.columns
        assert columns is not None
        offsets = {each.partition: at for each, at in positions.items()}
        options = self._options
        with self._making():
            table = create_table(options.table, options.catalog, columns, self._source, offsets)
        self._use(table, offsets)

    def _patience(self) -> float:
        since = self._uncommitted.since
        if since is None:
            return _POLL_SECONDS
        due = since + self._options.every_seconds - time.monotonic()
        return min(max(due, 0.0), _POLL_SECONDS)

    def _is_due(self) -> bool:
        since, options = self._uncommitted.since, self._options
        if since is None or self._committer is None:
            return False
        most_bytes = options.most_bytes
        if self._source.keys:
            most_bytes = min(most_bytes, _MOST_CHANGED)
        return (
            time.monotonic() - since >= options.every_seconds
            or self._uncommitted.rows >= options.most_rows
            or self._committer.bytes_written >= most_bytes
        )

    def _commit(self, reader: Reader, writer: ThreadPoolExecutor) -> None:
        """Commit what was written, or else offsets that have moved without rows: otherwise the
        next run would miss records that retention removes, and that were never visible."""
        self._submitted_at = time.monotonic()
        offsets = {each.partition: at for each, at in reader.positions.items()}
        moved = any(self._submitted.get(each) != at for each, at in offsets.items())
        if self._committer is None or (self._uncommitted.since is None and not moved):
            return
        self._uncommitted = _Uncommitted()
        self._submitted = offsets
        committer = self._committer

        def commit() -> None:
            committer.commit(offsets)
            self._committed(committer.landed)

        self._submit(writer, commit)

    def _submit(self, writer: ThreadPoolExecutor, act: Callable[[], None]) -> None:
        """Let the writing thread do something, unless what it did before has failed: a commit must
        not pass over rows that were not written."""

        def unless_failed() -> None:
            if self._failed:
                return
            try:
                act()
            except BaseException:
                self._failed = True
                raise

        self._waiting.append(writer.submit(unless_failed))

    def _drain(self, most: int) -> None:
        """Wait until at most so many tasks are left, and raise what one of them raised."""
        while self._waiting and (len(self._waiting) > most or self._waiting[0].done()):
            try:
                self._waiting.popleft().result()
            except OSError as error:
                assert self._table is not None
                raise LandingError(
                    f"{self._table.name} cannot be written: {error}; what was committed stays, and "
                    "the next run goes on behind it"
                ) from error

    def _add_partitions(self, pool: ConnectionPool, reader: Reader) -> None:
        new = [each for each in self._partitions(pool) if each not in reader.positions]
        if new:
            reader.add(dict.fromkeys(new, ReadRange()))

    def _behind(self, error: PositionOutOfRange) -> _Positions:
        """Return where a partition goes on behind lost records."""
        sentence = f"{error}: the table lacks records that the topic no longer has"
        if error.offset > error.log_end:
            raise RecordsLost(
                f"{error}: the topic was truncated, and may have other records under offsets that "
                "the table has already; land it in another table"
            ) from error
        if not self._options.skip_lost:
            raise RecordsLost(f"{sentence}; to go on without them, say --skip-lost") from error
        self._lost(f"{sentence}; offsets {error.offset} to {error.log_start - 1} are skipped")
        return {error.partition: error.log_start}

    def _explained(self, error: ClientError) -> Any:
        if isinstance(error, BrokerError) and error.code in _GONE:
            return LandingError(
                f"topic {self._source.topic} was deleted: {error}; all records that were read are "
                f"in {self._options.table}"
            )
        return error
