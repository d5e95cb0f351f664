"""Searches the records of a topic within bounds.

A search reads records from the cluster and keeps the few that match. It is bounded by how much it
reads, how long it takes and how many records it returns; the result says which bound ended it.
"""

import heapq
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.chunk import Chunk
from headrace.client.read.offset_lookup import FoundOffset, LogExtent, extents, list_offsets
from headrace.client.read.read_range import LogEdge, Moment, ReadRange
from headrace.client.read.reader import Reader
from headrace.console.message.message_filter import MessageFilter
from headrace.console.message.message_row import MessageRow
from headrace.console.message.payload_renderer import PREVIEW_CHARACTERS, PayloadRenderer
from headrace.model.ids import TopicPartition

MOST_MESSAGES: Final = 500
MOST_EXPORTED: Final = 10_000
MOST_SCANNED: Final = 1_000_000
MOST_SCANNED_BYTES: Final = 256 * 1024 * 1024
MOST_SECONDS: Final = 8.0
_CHUNK_ROWS: Final = 2_000
_IN_FLIGHT_BYTES: Final = 8 * 1024 * 1024
# How much the newest records of a partition may weigh together, estimated from its average.
_NEWEST_BYTES: Final = 32 * 1024 * 1024


Start: TypeAlias = str | int | Moment | Mapping[int, int]


@dataclass(frozen=True, slots=True)
class MessageQuery:
    """What to search for.

    Attributes:
        start: `newest`, which reads the last records; or where to read forwards from: `start`, an
            offset, a time, or the offsets by partition that an earlier result had in `next`.
        max_characters: the most characters of a value that the result shows.
    """

    topic: str
    partitions: tuple[int, ...]
    start: Start
    limit: int
    filter: MessageFilter = field(default_factory=MessageFilter)
    max_characters: int = PREVIEW_CHARACTERS


@dataclass(slots=True)
class SearchResult:
    """The matching records: newest first for `newest`, otherwise in the order of time.

    Attributes:
        ended: what ended the search: `end`, `limit`, `scanned`, `bytes` or `time`.
        next: for a search that reads forwards, the offsets by partition to continue from.
    """

    messages: list[dict[str, Any]]
    scanned: int
    scanned_bytes: int
    ended: str
    next: dict[int, int]


def search(
    pool: ConnectionPool, renderer: PayloadRenderer, query: MessageQuery, bytes_per_record: float
) -> SearchResult:
    """Return the records that match a query.

    Args:
        bytes_per_record: the topic's average; with huge records, `newest` reads fewer of them.
    """
    log = _extents(pool, query)
    if query.start == "newest":
        ranges = _newest(log, query, bytes_per_record)
    else:
        ranges = _forwards(pool, log, query)
    ranges = {partition: span for partition, span in ranges.items() if span.start != span.end}
    if not ranges:
        return SearchResult([], 0, 0, "end", {})
    run = _SearchRun(renderer, query)
    with Reader(
        pool.settings,
        ranges,
        batch_rows=_CHUNK_ROWS,
        columns=("offset", "timestamp", "key", "value", "headers"),
        max_bytes_in_flight=_IN_FLIGHT_BYTES,
        reset=LogEdge.EARLIEST,
    ) as reader:
        ended = run.read(reader)
        positions = {each.partition: offset for each, offset in reader.positions.items()}
    returned, beyond = run.messages()
    for each in beyond:
        index = each["partition"]
        positions[index] = min(positions[index], each["offset"])
    if ended == "end" and any(positions[each.partition] < log[each].end for each in ranges):
        ended = "limit"
    return SearchResult(returned, run.scanned, run.scanned_bytes, ended, positions)


def _extents(pool: ConnectionPool, query: MessageQuery) -> dict[TopicPartition, LogExtent]:
    partitions = [TopicPartition(query.topic, index) for index in query.partitions]
    log = {}
    for partition, extent in extents(pool, partitions).items():
        if isinstance(extent, ClientError):
            raise extent
        log[partition] = extent
    return log


def _newest(
    log: Mapping[TopicPartition, LogExtent], query: MessageQuery, bytes_per_record: float
) -> dict[TopicPartition, ReadRange]:
    """Return the last records of each partition: `limit` of them, or, with a filter, as many as a
    search may read."""
    most = query.limit if query.filter.matches_all else MOST_SCANNED // max(len(log), 1)
    budget = _NEWEST_BYTES if query.filter.matches_all else MOST_SCANNED_BYTES
    affordable = int(budget / max(bytes_per_record, 1.0)) // max(len(log), 1)
    span = max(min(most, affordable), 1)
    return {
        each: ReadRange(max(extent.start, extent.end - span), extent.end)
        for each, extent in log.items()
    }


def _forwards(
    pool: ConnectionPool, log: Mapping[TopicPartition, LogExtent], query: MessageQuery
) -> dict[TopicPartition, ReadRange]:
    """Return the ranges from the query's start on. Without a filter, `limit` records of each
    partition are enough to show the first `limit` of them all."""
    ranges = {}
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
        end = min(start + query.limit, extent.end) if query.filter.matches_all else extent.end
        ranges[partition] = ReadRange(start, end)
    return ranges


class _SearchRun:
    """One search in progress: what it has read and kept so far."""

    def __init__(self, renderer: PayloadRenderer, query: MessageQuery) -> None:
        self._renderer = renderer
        self._query = query
        self._newest = query.start == "newest"
        self._kept: list[tuple[int, int, int, dict[str, Any]]] = []
        self.scanned = 0
        self.scanned_bytes = 0

    def read(self, reader: Reader) -> str:
        """Read until a bound is reached, and return which."""
        deadline = time.monotonic() + MOST_SECONDS
        while not reader.ended:
            chunk = reader.poll(max(deadline - time.monotonic(), 0.0))
            if chunk is not None:
                self._scan(chunk)
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
        """Whether a filtered forward search has enough. Without a filter its ranges end it."""
        forwards = not self._newest and not self._query.filter.matches_all
        return forwards and len(self._kept) >= self._query.limit

    def messages(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return, in order, the records to return and those beyond the limit."""
        ordered = sorted(self._kept, key=lambda each: each[:3], reverse=self._newest)
        messages = [message for *_, message in ordered]
        return messages[: self._query.limit], messages[self._query.limit :]

    def _scan(self, chunk: Chunk) -> None:
        self.scanned += chunk.columns.num_rows
        self.scanned_bytes += chunk.columns.nbytes
        for row in self._query.filter.matching(chunk.columns, self._renderer):
            self._keep(chunk.partition.partition, row)

    def _keep(self, partition: int, row: MessageRow) -> None:
        """Keep a record; `newest` keeps only the `limit` newest, in a heap."""
        rank = (row.timestamp_ms, partition, row.offset)
        if not self._newest:
            self._kept.append((*rank, self._rendered(partition, row)))
        elif len(self._kept) < self._query.limit:
            heapq.heappush(self._kept, (*rank, self._rendered(partition, row)))
        elif rank > self._kept[0][:3]:
            heapq.heapreplace(self._kept, (*rank, self._rendered(partition, row)))

    def _rendered(self, partition: int, row: MessageRow) -> dict[str, Any]:
        return row.rendered(partition, self._renderer, self._query.max_characters)
