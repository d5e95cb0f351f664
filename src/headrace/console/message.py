"""Records of a topic for people: found, filtered and shown, all within bounds.

A search reads from the cluster and throws away; what bounds it is how much it reads, how long it
takes and how many records it returns, and the answer says which of them ended it.
"""

import heapq
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.chunk import Chunk
from headrace.client.read.offset_lookup import FoundOffset, LogExtent, extents, list_offsets
from headrace.client.read.read_range import Moment, Offset, ReadRange
from headrace.client.read.reader import Reader
from headrace.console.json_path import MISSING, as_text, look_up
from headrace.console.payload import PREVIEW_LETTERS, Painter, View
from headrace.model.ids import TopicPartition

MOST_MESSAGES: Final = 500
MOST_EXPORTED: Final = 10_000
MOST_SCANNED: Final = 1_000_000
MOST_SCANNED_BYTES: Final = 256 * 1024 * 1024
MOST_SECONDS: Final = 8.0
_CHUNK_ROWS: Final = 2_000
_IN_FLIGHT_BYTES: Final = 8 * 1024 * 1024
# What the newest records of a partition may weigh together, told from its average.
_NEWEST_BYTES: Final = 32 * 1024 * 1024


Start: TypeAlias = str | int | Moment | Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Filter:
    """What a record must hold: a text somewhere, a value at a path, or both."""

    text: bytes = b""
    places: frozenset[str] = frozenset(("key", "value", "headers"))
    path: tuple[str | int, ...] = ()
    equals: str | None = None

    @property
    def is_open(self) -> bool:
        return not self.text and not self.path


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for. `start` is `newest`, or where to read from, forwards: `start`, an offset,
    a time, or the offsets by partition that an answer had in `next`."""

    topic: str
    partitions: tuple[int, ...]
    start: Start
    limit: int
    filter: Filter = field(default_factory=Filter)
    letters: int = PREVIEW_LETTERS


@dataclass(slots=True)
class Found:
    """What was found, newest first for `newest`, else in the order of time.

    Attributes:
        next: where to read on, by partition, for a search that goes forwards.
        ended: `end`, `limit`, `scanned`, `bytes` or `time`: what ended it.
    """

    messages: list[dict[str, Any]]
    scanned: int
    scanned_bytes: int
    ended: str
    next: dict[int, int]


def search(pool: ConnectionPool, painter: Painter, query: Query, bytes_per_record: float) -> Found:
    """Look for records.

    Args:
        bytes_per_record: about, on average; keeps the newest of a topic with huge records few.
    """
    log = _extents(pool, query)
    if query.start == "newest":
        ranges = _newest(log, query, bytes_per_record)
    else:
        ranges = _forwards(pool, log, query)
    ranges = {each: wanted for each, wanted in ranges.items() if wanted.start != wanted.end}
    if not ranges:
        return Found([], 0, 0, "end", {})
    hunt = _Hunt(painter, query)
    with Reader(
        pool.settings,
        ranges,
        batch_rows=_CHUNK_ROWS,
        columns=("offset", "timestamp", "key", "value", "headers"),
        max_bytes_in_flight=_IN_FLIGHT_BYTES,
        reset=Offset.EARLIEST,
    ) as reader:
        ended = hunt.run(reader)
        positions = {each.partition: offset for each, offset in reader.positions.items()}
    kept, cut = hunt.messages()
    for each in cut:
        index = each["partition"]
        positions[index] = min(positions[index], each["offset"])
    if ended == "end" and any(positions[each.partition] < log[each].end for each in ranges):
        ended = "limit"
    return Found(kept, hunt.scanned, hunt.scanned_bytes, ended, positions)


def _extents(pool: ConnectionPool, query: Query) -> dict[TopicPartition, LogExtent]:
    wanted = [TopicPartition(query.topic, index) for index in query.partitions]
    found = {}
    for partition, extent in extents(pool, wanted).items():
        if isinstance(extent, ClientError):
            raise extent
        found[partition] = extent
    return found


def _newest(
    log: Mapping[TopicPartition, LogExtent], query: Query, bytes_per_record: float
) -> dict[TopicPartition, ReadRange]:
    """The last records of each partition: as many as are wanted, or, to look for something, as
    many as may be read."""
    most = query.limit if query.filter.is_open else MOST_SCANNED // max(len(log), 1)
    budget = _NEWEST_BYTES if query.filter.is_open else MOST_SCANNED_BYTES
    light = int(budget / max(bytes_per_record, 1.0)) // max(len(log), 1)
    span = max(min(most, light), 1)
    return {
        each: ReadRange(max(extent.start, extent.end - span), extent.end)
        for each, extent in log.items()
    }


def _forwards(
    pool: ConnectionPool, log: Mapping[TopicPartition, LogExtent], query: Query
) -> dict[TopicPartition, ReadRange]:
    """From some place on. Who looks for nothing in particular needs `limit` records of each
    partition at most, to show the first of them all."""
    found = {}
    times: Mapping[TopicPartition, FoundOffset | ClientError] = {}
    if isinstance(query.start, Moment):
        times = list_offsets(pool, dict.fromkeys(log, query.start.ms))
    for partition, extent in log.items():
        start = extent.start
        if isinstance(query.start, int):
            start = query.start
        elif isinstance(query.start, Moment):
            at = times[partition]
            start = at.offset if isinstance(at, FoundOffset) and at.offset >= 0 else extent.end
        elif isinstance(query.start, Mapping):
            start = query.start.get(partition.partition, extent.end)
        start = min(max(start, extent.start), extent.end)
        end = min(start + query.limit, extent.end) if query.filter.is_open else extent.end
        found[partition] = ReadRange(start, end)
    return found


class _Hunt:
    """One search on its way."""

    def __init__(self, painter: Painter, query: Query) -> None:
        self._painter = painter
        self._query = query
        self._newest = query.start == "newest"
        self._found: list[tuple[int, int, int, dict[str, Any]]] = []
        self.scanned = 0
        self.scanned_bytes = 0

    def run(self, reader: Reader) -> str:
        deadline = time.monotonic() + MOST_SECONDS
        while not reader.ended:
            chunk = reader.poll(max(deadline - time.monotonic(), 0.0))
            if chunk is not None:
                self._take(chunk)
            if self._full:
                return "limit"
            if self.scanned >= MOST_SCANNED:
                return "scanned"
            if self.scanned_bytes >= MOST_SCANNED_BYTES:
                return "bytes"
            if time.monotonic() >= deadline:
                return "time"
        return "end"

    @property
    def _full(self) -> bool:
        """What reads forwards without a filter ends by its ranges."""
        forwards = not self._newest and not self._query.filter.is_open
        return forwards and len(self._found) >= self._query.limit

    def messages(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """In order: what is answered, and what was found beyond that."""
        ordered = sorted(self._found, key=lambda each: each[:3], reverse=self._newest)
        messages = [message for *_, message in ordered]
        return messages[: self._query.limit], messages[self._query.limit :]

    def _take(self, chunk: Chunk) -> None:
        self.scanned += chunk.columns.num_rows
        self.scanned_bytes += chunk.columns.nbytes
        for row in matching(chunk.columns, self._query.filter, self._painter):
            self._keep(chunk.partition.partition, row)

    def _keep(self, partition: int, row: "Row") -> None:
        rank = (row.timestamp_ms, partition, row.offset)
        if not self._newest:
            self._found.append((*rank, row.painted(partition, self._painter, self._query.letters)))
        elif len(self._found) < self._query.limit:
            painted = row.painted(partition, self._painter, self._query.letters)
            heapq.heappush(self._found, (*rank, painted))
        elif rank > self._found[0][:3]:
            painted = row.painted(partition, self._painter, self._query.letters)
            heapq.heapreplace(self._found, (*rank, painted))


@dataclass(frozen=True, slots=True)
class Row:
    """One record out of its columns."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]

    def painted(
        self, partition: int, painter: Painter, letters: int, view: View = View.AUTO
    ) -> dict[str, Any]:
        return {
            "partition": partition,
            "offset": self.offset,
            "timestamp_ms": self.timestamp_ms,
            "key": painter.key(self.key).as_json(),
            "value": painter.show(self.value, view, letters).as_json(),
            "headers": [
                {"name": name, **painter.header(name, data).as_json()}
                for name, data in self.headers
            ],
        }


def rows_of(columns: pa.RecordBatch) -> Iterator[Row]:
    """Records one by one: for the few that somebody looks at."""
    offsets = columns.column("offset").to_pylist()
    times = columns.column("timestamp").cast(pa.int64()).to_pylist()
    keys, values, headers = (columns.column(name) for name in ("key", "value", "headers"))
    for number, (offset, timestamp_ms) in enumerate(zip(offsets, times, strict=True)):
        yield Row(
            offset,
            timestamp_ms,
            keys[number].as_py(),
            values[number].as_py(),
            [(each["key"], each["value"]) for each in headers[number].as_py()],
        )


def matching(columns: pa.RecordBatch, wanted: Filter, painter: Painter) -> Iterator[Row]:
    """The records that hold what is wanted, as far as they may be seen."""
    if wanted.text and not painter.hides:
        columns = columns.filter(_perhaps(columns, wanted))
    for row in rows_of(columns):
        if _has_text(row, wanted, painter) and _has_value(row, wanted, painter):
            yield row


def _perhaps(columns: pa.RecordBatch, wanted: Filter) -> pa.Array:
    """Which rows are worth opening: told from whole columns at once."""
    masks = [
        pc.match_substring(columns.column(place), wanted.text)
        for place in ("key", "value")
        if place in wanted.places
    ]
    if "headers" in wanted.places:
        masks.append(pc.greater(pc.list_value_length(columns.column("headers")), 0))
    found = pc.fill_null(masks[0], False)
    for each in masks[1:]:
        found = pc.or_(found, pc.fill_null(each, False))
    return found


def _has_text(row: Row, wanted: Filter, painter: Painter) -> bool:
    if not wanted.text:
        return True
    if "key" in wanted.places and wanted.text in (painter.searchable_key(row.key) or b""):
        return True
    if "value" in wanted.places and wanted.text in (painter.searchable(row.value) or b""):
        return True
    return "headers" in wanted.places and any(
        wanted.text in name.encode() + b"=" + (painter.searchable_header(name, data) or b"")
        for name, data in row.headers
    )


def _has_value(row: Row, wanted: Filter, painter: Painter) -> bool:
    if not wanted.path:
        return True
    value = look_up(painter.parsed(row.value), wanted.path)
    return value is not MISSING and (wanted.equals is None or as_text(value) == wanted.equals)
