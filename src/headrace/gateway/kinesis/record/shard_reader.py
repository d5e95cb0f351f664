"""Reads records of one partition for a request, without waiting for new ones."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.batch_reader import BatchReader
from headrace.client.read.offset_lookup import EARLIEST, LATEST, list_offsets
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.record.row import StoredRow
from headrace.model.ids import TopicPartition
from headrace.records.decode import decode
from headrace.wire.error_code import ErrorCode

MOST_BYTES: Final = 10 << 20
"""What one GetRecords returns at most."""

_LEAST_FETCH_BYTES: Final = 256 << 10
_EXPECTED_RECORD_BYTES: Final = 4 << 10
_API_TIMEOUT_MS: Final = 10_000
_TRIES: Final = 20


@dataclass(frozen=True, slots=True)
class ReadRows:
    """What was read.

    Attributes:
        next_offset: where to go on.
        end: where the log ends for readers of committed records.
    """

    rows: list[StoredRow]
    next_offset: int
    end: int


class ShardReader:
    """Reads partitions. Each thread has its own connections, which live as long as the thread."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = replace(
            settings, api_timeout_ms=min(settings.api_timeout_ms, _API_TIMEOUT_MS)
        )
        self._local = threading.local()
        self._pools: list[ConnectionPool] = []

    @property
    def pool(self) -> ConnectionPool:
        """This thread's connections."""
        pool: ConnectionPool | None = getattr(self._local, "pool", None)
        if pool is None:
            pool = self._local.pool = ConnectionPool(self._settings)
            self._pools.append(pool)
        return pool

    def close(self) -> None:
        """Disconnect. The threads that read have ended."""
        for pool in self._pools:
            pool.close()

    def read(
        self,
        partition: TopicPartition,
        offset: int,
        last: int | None,
        most_rows: int,
        wait_ms: int = 0,
        most_bytes: int = MOST_BYTES,
    ) -> ReadRows:
        """Read rows from `offset` on, up to and without `last`.

        Records that were deleted by retention are skipped. A first row above `most_bytes` is read
        all the same.

        Raises:
            ClientError: the leader cannot be reached, or refuses.
        """
        wanted = min(most_bytes, max(_LEAST_FETCH_BYTES, most_rows * _EXPECTED_RECORD_BYTES))
        reader = BatchReader(
            self.pool, {partition: offset}, read_committed=True, partition_max_bytes=wanted
        )
        begin, end = offset, offset
        for _ in range(_TRIES):
            for fetched in reader.poll(wait_ms):
                error = fetched.error
                if error is not None and error.code is ErrorCode.offset_out_of_range:
                    start = self._log_start(partition)
                    if offset >= start:  # behind the log's end
                        return ReadRows([], offset, offset)
                    offset = reader.positions[partition] = start
                    continue
                if error is not None:
                    raise error
                decoded = decode(
                    fetched.data,
                    start_offset=offset,
                    end_offset=last,
                    aborted=fetched.aborted,
                    columns=["offset", "timestamp", "key", "value"],
                    max_inflated_bytes=64 << 20,
                )
                rows, all_taken = _rows(decoded.columns, most_rows, most_bytes)
                if rows or decoded.next_offset >= fetched.end or not fetched.data:
                    next_offset = max(offset, decoded.next_offset)
                    if not all_taken:
                        next_offset = rows[-1].offset + 1
                    if last is not None:
                        next_offset = min(next_offset, last)
                    return ReadRows(rows, next_offset, fetched.end)
                # Only markers and aborted records: look behind them.
                offset = reader.positions[partition] = max(offset, decoded.next_offset)
                end = fetched.end
                if last is not None and offset >= last:
                    return ReadRows([], last, fetched.end)
        if offset > begin:  # a long row of aborted records: the next read goes on behind them
            return ReadRows([], offset, end)
        raise ClientError(f"{partition} cannot be read at offset {offset}")

    def offset_at(self, partition: TopicPartition, time_ms: int) -> int:
        """Return the first offset that is not older than a time; the end if there is none.

        `LATEST` and `EARLIEST` of `client.read.offset_lookup` are times as well.

        Raises:
            ClientError: the leader cannot be reached, or refuses.
        """
        return self.offsets_at([partition], time_ms)[partition]

    def offsets_at(
        self, partitions: Sequence[TopicPartition], time_ms: int
    ) -> dict[TopicPartition, int]:
        """Return what `offset_at` returns, for many partitions with one request per leader.

        Raises:
            ClientError: a leader cannot be reached, or refuses.
        """
        offsets: dict[TopicPartition, int] = {}
        times = dict.fromkeys(partitions, time_ms)
        for partition, found in list_offsets(self.pool, times, read_committed=True).items():
            if isinstance(found, ClientError):
                raise found
            offsets[partition] = found.offset
        older = [partition for partition, offset in offsets.items() if offset < 0]
        return offsets | self.offsets_at(older, LATEST) if older else offsets

    def _log_start(self, partition: TopicPartition) -> int:
        return self.offset_at(partition, EARLIEST)


def _rows(columns: pa.RecordBatch, most_rows: int, most_bytes: int) -> tuple[list[StoredRow], bool]:
    """Return rows up to both limits, and whether these are all. The first one always fits."""
    taken = columns.slice(0, most_rows)
    offsets = taken.column("offset").to_numpy().tolist()
    times = taken.column("timestamp").cast(pa.int64()).to_numpy().tolist()
    keys, values = _blobs(taken.column("key")), _blobs(taken.column("value"))
    rows: list[StoredRow] = []
    size = 0
    for offset, time_ms, key, value in zip(offsets, times, keys, values, strict=False):
        data = value or b""
        size += len(key or b"") + len(data)
        if rows and size > most_bytes:
            return rows, False
        rows.append(StoredRow(offset, time_ms, key, data))
    return rows, len(rows) == columns.num_rows


def _blobs(column: pa.Array) -> Iterator[bytes | None]:
    """Yield the values of a column as they are asked for; `as_py` takes several times as long."""
    if column.null_count or column.type != pa.binary():
        for each in column:
            yield each.as_py()
        return
    _, offsets, data = column.buffers()
    if not len(column):
        return
    first = column.offset
    bounds = np.frombuffer(offsets, np.int32)[first : first + len(column) + 1].tolist()
    view = memoryview(data or b"")
    for start, end in pairwise(bounds):
        yield view[start:end].tobytes()
