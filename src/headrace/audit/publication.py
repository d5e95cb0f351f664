"""Writing audit records to their topic."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.audit.record import AuditRecord
from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.error import BrokerError, ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.client.write.writer import Writer
from headrace.model.clock import SystemClock
from headrace.wire.error_code import ErrorCode


class Publication:
    """Writes to one audit topic, and creates it if it is missing. For one thread.

    The connection is kept. A record may be there twice after a failure; it counts once.
    """

    def __init__(self, settings: ClientSettings, topic: str) -> None:
        self.settings = settings
        self.topic = topic
        self._ready = False
        self._writer: Writer | None = None

    def write(self, records: Sequence[AuditRecord]) -> None:
        """Write records and return when they are acknowledged.

        Raises:
            ClientError: they are not; the connection is a new one the next time.
        """
        if not records:
            return
        kept = self._writer is not None
        try:
            self._write(records)
        except ClientError:
            self.close()
            if not kept:
                raise
            # The broker may have closed a connection that was idle for long.
            try:
                self._write(records)
            except ClientError:
                self.close()
                raise

    def _write(self, records: Sequence[AuditRecord]) -> None:
        if not self._ready:
            self._create_topic()
        if self._writer is None:
            self._writer = Writer(self.settings, self.topic, idempotent=False)
        keys, values = zip(*(each.encode() for each in records), strict=True)
        columns = [_binary(keys), _binary(values), _now(len(records))]
        self._writer.write(pa.RecordBatch.from_arrays(columns, names=["key", "value", "timestamp"]))
        self._writer.flush()

    def _create_topic(self) -> None:
        with ConnectionPool(self.settings) as pool:
            metadata = pool.metadata([self.topic]).topics.get(self.topic)
            if metadata is None or metadata.error is not None:
                error = Admin(pool).create_topics([NewTopic(self.topic, 1)])[self.topic]
                if isinstance(error, BrokerError) and not _is_there(error):
                    raise error
        self._ready = True

    def close(self) -> None:
        """Close the connection; a second call does nothing."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abandon()


# Not pa.array: its first call imports pandas, a third of a second in every Spark worker.


def _binary(values: Sequence[bytes]) -> pa.Array:
    ends = np.cumsum([0, *map(len, values)], dtype=np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def _now(rows: int) -> pa.Array:
    times = np.full(rows, SystemClock().wall_ms(), dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(times)])


def _is_there(error: BrokerError) -> bool:
    return error.code is ErrorCode.topic_already_exists
