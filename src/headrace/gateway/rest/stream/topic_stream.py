"""The records of a topic as they come, for one client.

Rule 1: a stream holds one piece at a time, of about `PIECE_BYTES` whatever a compressed batch of
`FETCH_BYTES` grows to, and asks for the next one when the client has taken its records. What does
not fit is fetched again. A slow client slows down itself.
Rule 2: each group of records has a position: those of all partitions after that group. A client
that connects again sends it, and goes on there.
Rule 3: there are at most `MOST_STREAMS`, and of one user a quarter of them. A thread is held
only while a broker is asked.
Rule 4: at most `_DECODERS` batches are decompressed at once.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.batch_reader import BatchReader, FetchedBatches
from headrace.client.read.offset_lookup import EARLIEST, LATEST, list_offsets
from headrace.client.settings import ClientSettings
from headrace.gateway.rest.error import RestError, bad_request
from headrace.gateway.rest.json_document import write_json
from headrace.gateway.rest.produce.embedded_data import from_milliseconds
from headrace.gateway.rest.request_body import busy
from headrace.gateway.rest.stream.record_filter import RecordFilter, shown
from headrace.model.ids import TopicPartition
from headrace.records.decode import decode
from headrace.wire.error_code import ErrorCode

MOST_STREAMS: Final = 256
MOST_STREAMS_OF_USER: Final = MOST_STREAMS // 4
FETCH_BYTES: Final = 256 << 10
PIECE_BYTES: Final = 512 << 10
_INFLATED_BYTES: Final = 16 << 20
_DECODERS: Final = 4
_ROWS: Final = 256
"""Rows that become Python objects at once."""

_WAIT_MS: Final = 500
_TIMEOUT_MS: Final = 10_000
_COLUMNS: Final = ["offset", "timestamp", "key", "value", "headers"]
_MOST_PARTITIONS: Final = 200

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """What a client asked for.

    Attributes:
        from_start: begin with the first record, not with the next one that comes.
        partition: only this one.
        positions: where to go on, of an earlier stream.
        owner: the user who asked; empty where there is no login.
    """

    topic: str
    from_start: bool
    partition: int | None
    positions: Mapping[int, int]
    wanted: RecordFilter
    owner: str = ""


@dataclass(frozen=True, slots=True)
class StreamPiece:
    """The records of one fetch.

    Attributes:
        documents: a JSON object per record.
        position: where to go on after them.
    """

    documents: list[bytes]
    position: str


class TopicStream:
    """Reads a topic for one client. One thread at a time uses it."""

    def __init__(
        self, request: StreamRequest, settings: ClientSettings, decoders: threading.Semaphore
    ) -> None:
        self._request = request
        self.owner = request.owner
        self._decoders = decoders
        self._pool = ConnectionPool(
            replace(
                settings,
                api_timeout_ms=min(settings.api_timeout_ms, _TIMEOUT_MS),
                fetch_max_bytes=FETCH_BYTES,
                partition_max_bytes=FETCH_BYTES,
            )
        )
        self._reader: BatchReader | None = None

    def open(self) -> None:
        """Look up where to begin.

        Raises:
            RestError: there is no such topic or partition.
        """
        wish = self._request
        topic = self._pool.metadata([wish.topic]).topics.get(wish.topic)
        if topic is None or topic.error is not None:
            raise RestError(404, "Topic not found.", 40401)
        indexes = list(topic.partitions)
        if wish.partition is not None:
            indexes = [each for each in indexes if each == wish.partition]
            if not indexes:
                raise RestError(404, "Partition not found.", 40402)
        if len(indexes) > _MOST_PARTITIONS:
            raise bad_request(f"A stream reads at most {_MOST_PARTITIONS} partitions: choose one.")
        edge = EARLIEST if wish.from_start else LATEST
        found = list_offsets(
            self._pool, {TopicPartition(wish.topic, each): edge for each in indexes}
        )
        positions = {}
        for where, each in found.items():
            if isinstance(each, ClientError):
                raise each
            positions[where] = wish.positions.get(where.partition, each.offset)
        self._reader = BatchReader(self._pool, positions)

    def next(self) -> StreamPiece | None:
        """Return the records of one fetch; None if none came in a moment."""
        assert self._reader is not None
        documents: list[bytes] = []
        room = PIECE_BYTES
        for fetched in self._reader.poll(_WAIT_MS):
            if room > 0:
                found = self._documents(fetched, room)
                room -= sum(map(len, found))
                documents += found
        if not documents:
            return None
        places = sorted((each.partition, at) for each, at in self._reader.positions.items())
        return StreamPiece(documents, ",".join(f"{index}:{at}" for index, at in places))

    def close(self) -> None:
        self._pool.close()

    def _documents(self, fetched: FetchedBatches, room: int) -> list[bytes]:
        """Return records until they fill some bytes, and move the position behind them."""
        assert self._reader is not None
        if fetched.error is not None:
            if fetched.error.code is not ErrorCode.offset_out_of_range:
                raise fetched.error
            start = list_offsets(self._pool, {fetched.partition: EARLIEST})[fetched.partition]
            if isinstance(start, ClientError):
                raise start
            self._reader.positions[fetched.partition] = start.offset
            return []
        if not fetched.data:
            return []
        with self._decoders:
            decoded = decode(
                fetched.data,
                start_offset=fetched.offset,
                aborted=fetched.aborted,
                columns=_COLUMNS,
                max_inflated_bytes=_INFLATED_BYTES,
            )
            documents: list[bytes] = []
            following = max(fetched.offset, decoded.next_offset)
            for offset, document in self._accepted(fetched.partition, decoded.columns):
                if room <= 0:
                    following = offset
                    break
                documents.append(document)
                room -= len(document)
        self._reader.positions[fetched.partition] = following
        return documents

    def _accepted(self, partition: TopicPartition, columns: Any) -> Iterator[tuple[int, bytes]]:
        """Yield the records that the client wants, with their offsets."""
        accepts = self._request.wanted.accepts
        for at in range(0, columns.num_rows, _ROWS):
            rows = columns.slice(at, _ROWS)
            for offset, time_ms, key, value, headers in zip(
                rows.column("offset").to_pylist(),
                rows.column("timestamp").cast("int64").to_pylist(),
                rows.column("key").to_pylist(),
                rows.column("value").to_pylist(),
                rows.column("headers").to_pylist(),
                strict=True,
            ):
                if accepts(key, value):
                    yield offset, _document(partition, offset, time_ms, key, value, headers)


class TopicStreams:
    """All streams of a proxy; for one event loop."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._decoders = threading.Semaphore(_DECODERS)
        self._threads = ThreadPoolExecutor(MOST_STREAMS, thread_name_prefix="rest-stream")
        self._counts: Counter[str] = Counter()

    async def open(self, request: StreamRequest) -> TopicStream:
        """Begin a stream; the caller closes it.

        Raises:
            RestError: there is no such topic, or there are too many streams, or of this user.
        """
        owner = request.owner
        if self._counts.total() >= MOST_STREAMS:
            raise busy()
        if owner and self._counts[owner] >= MOST_STREAMS_OF_USER:
            raise busy(f"A user has at most {MOST_STREAMS_OF_USER} streams at a time.")
        self._counts[owner] += 1
        stream = TopicStream(request, self._settings, self._decoders)
        try:
            await self._run(stream.open)
        except BaseException:
            await self.close(stream)
            raise
        return stream

    async def next(self, stream: TopicStream) -> StreamPiece | None:
        return await self._run(stream.next)

    async def close(self, stream: TopicStream) -> None:
        self._counts[stream.owner] -= 1
        self._counts += Counter()  # without users who have none
        await asyncio.shield(self._run(stream.close))

    def stop(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, work: Callable[[], T]) -> T:
        # Shielded: what a thread uses must not be closed while it does.
        future = asyncio.get_running_loop().run_in_executor(self._threads, work)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            await asyncio.wait({future})
            raise


def parse_positions(text: str) -> dict[int, int]:
    """Return the positions of an event's id: `0:17,1:4`.

    Raises:
        RestError: it is none.
    """
    positions = {}
    for each in text.split(",")[:_MOST_PARTITIONS] if text else ():
        index, _, offset = each.partition(":")
        if not all(
            part.isascii() and part.isdigit() and len(part) < 19 for part in (index, offset)
        ):
            raise bad_request("position, or Last-Event-ID, is no position of a stream.")
        positions[int(index)] = int(offset)
    return positions


def _document(
    partition: TopicPartition,
    offset: int,
    time_ms: int,
    key: bytes | None,
    value: bytes | None,
    headers: list[dict[str, Any]],
) -> bytes:
    key_type, shown_key = shown(key)
    value_type, shown_value = shown(value)
    document = {
        "topic": partition.topic,
        "partition": partition.partition,
        "offset": offset,
        "timestamp": from_milliseconds(time_ms),
        "key": shown_key,
        "key_type": key_type,
        "value": shown_value,
        "value_type": value_type,
        "headers": [{"name": each["key"], "value": shown(each["value"])[1]} for each in headers],
    }
    return write_json(document)
