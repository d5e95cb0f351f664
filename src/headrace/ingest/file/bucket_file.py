"""An open file of an hdfs sink."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet

from headrace.ingest.event import EventBatch
from headrace.ingest.format.serializer import Serializer
from headrace.storage.storage_folder import StorageFolder

_PARQUET = pa.schema([("headers", pa.map_(pa.string(), pa.string())), ("body", pa.binary())])


class RollPolicy(NamedTuple):
    """When a file is closed and the next one begun; 0 means no limit."""

    seconds: float
    size_bytes: int
    events: int
    idle_seconds: float


class BucketFile:
    """A file that has an in-use name while it is written, and is renamed when it is closed. An
    object in a store has its final name from the start, because it is invisible until it is
    complete.

    When `write` returns, the file system has the events: flushed, if it supports that. A Parquet
    file and an object in a store only exist once they are closed, so they are closed after every
    batch (`closes_at_once`).
    """

    def __init__(
        self,
        storage: StorageFolder,
        path: str,
        in_use: str,
        new_serializer: Callable[[], Serializer] | None,
        codec: str | None,
    ) -> None:
        self._storage = storage
        filesystem = storage.filesystem
        self._path = path
        self._in_use = path if storage.closes_whole else in_use
        self._serializer = None if new_serializer is None else new_serializer()
        folder = path.rpartition("/")[0]
        if folder:
            filesystem.create_dir(folder, recursive=True)
        self._raw: Any = filesystem.open_output_stream(self._in_use)
        self._stream: Any = pa.CompressedOutputStream(self._raw, codec) if codec else self._raw
        self._parquet: Any = None
        if self._serializer is None:
            self._parquet = pyarrow.parquet.ParquetWriter(self._stream, _PARQUET)
        else:
            self._stream.write(self._serializer.head())
        self.opened_at = self.written_at = time.monotonic()
        self.size_bytes = 0
        self.count = 0

    @property
    def closes_at_once(self) -> bool:
        # A compressed stream keeps bytes back until they fill a block.
        return (
            self._parquet is not None or self._stream is not self._raw or not self._storage.flushes
        )

    def write(self, batch: EventBatch) -> None:
        if self._parquet is not None:
            rows = [list(headers.items()) for headers in batch.headers]
            columns = [pa.array(rows, _PARQUET.field(0).type), pa.array(batch.bodies, pa.binary())]
            self._parquet.write_batch(pa.record_batch(columns, schema=_PARQUET))
            self.size_bytes += batch.body_bytes
        else:
            assert self._serializer is not None
            data = self._serializer.encode(batch)
            self._stream.write(data)
            self._stream.flush()
            self.size_bytes += len(data)
        self.count += len(batch)
        self.written_at = time.monotonic()

    def is_full(self, policy: RollPolicy) -> bool:
        return bool(
            self.closes_at_once
            or (policy.size_bytes and self.size_bytes >= policy.size_bytes)
            or (policy.events and self.count >= policy.events)
            or self.is_due(policy)
        )

    def is_due(self, policy: RollPolicy) -> bool:
        now = time.monotonic()
        return bool(
            (policy.seconds and now - self.opened_at >= policy.seconds)
            or (policy.idle_seconds and now - self.written_at >= policy.idle_seconds)
        )

    def close(self) -> None:
        """Finish the file and rename it."""
        self._end()
        if self._in_use != self._path:
            self._storage.filesystem.move(self._in_use, self._path)

    def abandon(self) -> bool:
        """Close a file after a failed write; it keeps the earlier events. Return whether it was
        renamed."""
        try:
            self.close()
        except (OSError, pa.ArrowException):
            self._raw.close()
            return False
        return True

    def _end(self) -> None:
        if self._parquet is not None:
            self._parquet.close()
        self._stream.close()
        self._raw.close()
