"""Follows the topic of streams, and knows how fresh what it knows is.

Rule 1: a view is *confirmed* for a moment when a lease record, sent after that moment by this
instance, was read back. Everything that was committed before that moment lies before the record.
Neither the end that ListOffsets returns nor that of a fetch would do: a leader that was cut off
answers both, and does not know what its successor has committed.
Rule 2: the topic is read up to the last stable offset. A change whose transaction is still open
delays confirmation: it may be committed any moment.
Rule 3: `streams` is replaced, never changed, and replaced before `confirmed_at` is raised. A reader
takes `confirmed_at` first.
Rule 4: a topic that was deleted and created again is read from its start, also when it has grown
past our offset: its id is another one.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import structlog

from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.batch_reader import BatchReader, FetchedBatches
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.store.broker_order import BrokerOrder
from headrace.gateway.kinesis.store.instance_watch import InstanceWatch
from headrace.gateway.kinesis.store.lease import lease_clock
from headrace.gateway.kinesis.store.lease_writer import LeaseWriter
from headrace.gateway.kinesis.store.stream_topic import (
    LEASE_NAME,
    SEAL_NAME,
    STREAM_PARTITION,
    read_document,
    read_seal_key,
    read_stream,
)
from headrace.gateway.kinesis.stream.stream_state import StreamState
from headrace.records.decode import decode
from headrace.wire.error_code import ErrorCode

log = structlog.get_logger()

_POLL_MS: Final = 500
_READ_BACK_SECONDS: Final = 3.0
_RETRY_SECONDS: Final = 0.2
_API_TIMEOUT_MS: Final = 3_000
_REQUEST_TIMEOUT_MS: Final = 2_000


class StreamTail:
    """A thread that applies every committed change.

    Attributes:
        streams: all streams by name, as far as they are known.
        documents: all records that are neither streams nor the seal's key, such as the account.
        seal_key: of iterators, once it is known.
        confirmed_at: the moment of `lease_clock` for which `streams` was last confirmed.
        instances: which others are alive.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._brokers = BrokerOrder(
            replace(
                settings,
                api_timeout_ms=min(settings.api_timeout_ms, _API_TIMEOUT_MS),
                # A leader that hangs must not keep this from the next one.
                request_timeout_ms=min(settings.request_timeout_ms, _REQUEST_TIMEOUT_MS),
            )
        )
        self._leases = LeaseWriter(settings)
        self.streams: Mapping[str, StreamState] = {}
        self.documents: Mapping[str, dict[str, Any]] = {}
        self.seal_key: bytes | None = None
        self.confirmed_at = float("-inf")
        self.instances = InstanceWatch(lease_clock())
        self._offset = 0
        self._topic_id: UUID | None = None
        self._changed = threading.Condition()
        self._listeners: list[Callable[[], object]] = []
        self._stopping = False
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="kinesis-tail", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._leases.start()

    def stop(self) -> None:
        self._stopping = True
        self.wake()
        self._leases.stop()
        self._thread.join(timeout=10)

    @property
    def instance(self) -> str:
        """The id of this instance, which no other one has, nor this one after a restart."""
        return self._leases.instance.hex()

    def want(self, at: float) -> None:
        """Have the view confirmed for this moment of `lease_clock`, in the background."""
        self._leases.want(at)

    def listen(self, listener: Callable[[], object]) -> None:
        """Call this after every confirmation or change; it must neither wait nor raise."""
        self._listeners.append(listener)

    def wake(self) -> None:
        """End every `wait`."""
        with self._changed:
            self._changed.notify_all()
        for each in self._listeners:
            each()

    def wait(self, seconds: float) -> None:
        """Wait for the next confirmation or change."""
        with self._changed:
            self._changed.wait(seconds)

    def refresh(self, seconds: float) -> bool:
        """Wait until the view is confirmed for now; return whether it was in time."""
        now = lease_clock()
        self.want(now)
        with self._changed:
            return self._changed.wait_for(lambda: self.confirmed_at >= now, seconds)

    def _run(self) -> None:
        while not self._stopping:
            try:
                with ConnectionPool(self._brokers.settings) as pool:
                    reader = BatchReader(
                        pool, {STREAM_PARTITION: self._offset}, read_committed=True
                    )
                    while not self._stopping:
                        self._step(pool, reader)
            except Exception as error:  # noqa: BLE001 - without this thread no put is acknowledged
                self._report(error)
                self._brokers.turn()
                time.sleep(_RETRY_SECONDS)

    def _report(self, error: Exception) -> None:
        """Log the first failure of an outage; `_step` logs its end."""
        if not self._failing and not self._stopping:
            self._failing = True
            log.warning("kinesis_streams_unreadable", error=repr(error))

    def _step(self, pool: ConnectionPool, reader: BatchReader) -> None:
        before = self._offset
        for fetched in reader.poll(_POLL_MS):
            self._apply(fetched)
        reader.positions[STREAM_PARTITION] = self._offset
        # A lease that a leader has acknowledged must come back: else this is not the leader.
        written = self._leases.written
        overdue = written > self.confirmed_at and lease_clock() - written > _READ_BACK_SECONDS
        if overdue and self._offset == before:
            raise ClientError("a lease that was written cannot be read")
        self._brokers.learn(pool)
        if self._failing:
            self._failing = False
            log.info("kinesis_streams_readable_again")

    def _apply(self, fetched: FetchedBatches) -> None:
        if fetched.error is not None:
            if fetched.error.code is not ErrorCode.offset_out_of_range:
                raise fetched.error
            self._start_over(fetched)
            return
        if self._topic_id not in (None, fetched.topic_id):
            self._start_over(fetched)
            return
        self._topic_id = fetched.topic_id
        decoded = decode(
            fetched.data,
            start_offset=fetched.offset,
            aborted=fetched.aborted,
            columns=["key", "value"],
        )
        self._offset = max(self._offset, decoded.next_offset)
        if not decoded.columns.num_rows:
            return
        streams = dict(self.streams)
        confirmed_at = self.confirmed_at
        rows = decoded.columns.to_pydict()
        for key, value in zip(rows["key"], rows["value"], strict=True):
            name = (key or b"").decode("utf-8", "replace")
            if name == LEASE_NAME:
                self.instances.hear(value or b"", lease_clock())
                sent_at = self._leases.sent_at(value or b"")
                confirmed_at = confirmed_at if sent_at is None else max(confirmed_at, sent_at)
            else:
                self._apply_record(streams, name, value)
        self.streams = streams
        self.confirmed_at = confirmed_at
        self.wake()

    def _start_over(self, fetched: FetchedBatches) -> None:
        """Read the topic from its start: it was deleted and created again."""
        log.warning("kinesis_streams_restarted", offset=self._offset)
        self._offset = max(0, fetched.log_start)
        self._topic_id = fetched.topic_id
        self.streams = {}
        self.documents = {}

    def _apply_record(
        self, streams: dict[str, StreamState], name: str, value: bytes | None
    ) -> None:
        if value is None:
            streams.pop(name, None)
            self.documents = {key: each for key, each in self.documents.items() if key != name}
            return
        try:
            if name == SEAL_NAME:
                self.seal_key = read_seal_key(value)
            elif name.startswith("/"):
                self.documents = {**self.documents, name: read_document(value)}
            else:
                streams[name] = read_stream(value)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            # A stream that this version cannot read is not served: its shards would be wrong.
            streams.pop(name, None)
            log.error("kinesis_stream_unreadable", stream=name[:128], error=str(error))
