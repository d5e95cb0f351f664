"""Reads `_schemas` into the state, and knows how far it has come.

Rule 1: the state changes under `read`'s lock only, by records in the order of the topic.
Rule 2: a topic that was deleted and created again is read from its start: its id is another one.
Rule 3: what became of a record that did not count is kept for a while, for its writer to see.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, TypeVar
from uuid import UUID

import pyarrow as pa
import structlog

from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.batch_reader import BatchReader, FetchedBatches
from headrace.client.settings import ClientSettings
from headrace.gateway.registry.state.registry_state import LogRecord, Outcome, RegistryState
from headrace.model.ids import TopicPartition
from headrace.records.decode import decode
from headrace.records.encode import encode
from headrace.wire.error_code import ErrorCode

log = structlog.get_logger()

T = TypeVar("T")

CLAIM_HEADER: Final = "headrace.claim"
"""The number of the writer's claim; with `=` before it, this record is that claim."""

_POLL_MS: Final = 500
_RETRY_SECONDS: Final = 0.2
_REQUEST_TIMEOUT_MS: Final = 5_000
_KEPT_OUTCOMES: Final = 10_000
_WARM_UP: Final = pa.schema([("key", pa.binary()), ("value", pa.binary())])
_COLUMNS: Final = ("offset", "timestamp", "key", "value", "headers")
_HEADERS: Final = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))

Headers = list[dict[str, bytes | None]]


class SchemaTail:
    """A thread that applies every record. Threads: all methods may be called in any."""

    def __init__(self, settings: ClientSettings, topic: str) -> None:
        self._settings = replace(
            settings, request_timeout_ms=min(settings.request_timeout_ms, _REQUEST_TIMEOUT_MS)
        )
        self._partition = TopicPartition(topic, 0)
        self._state = RegistryState()
        self._offset = 0
        self._topic_id: UUID | None = None
        self._end: int | None = None
        self._not_applied: OrderedDict[int, Outcome] = OrderedDict()
        self._changed = threading.Condition()
        self._stopping = False
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="registry-tail", daemon=True)

    def start(self, seconds: float) -> None:
        """Read what is there.

        Raises:
            ClientError: the end was not reached in time.
        """
        _load_kernels()
        self._thread.start()
        with self._changed:
            reached = self._changed.wait_for(
                lambda: self._end is not None and self._offset >= self._end, seconds
            )
        if not reached:
            raise ClientError(f"topic {self._partition.topic} cannot be read to its end")

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(timeout=10)

    def read(self, step: Callable[[RegistryState], T]) -> T:
        """Call a function with the state, which does not change meanwhile."""
        with self._changed:
            return step(self._state)

    @property
    def offset(self) -> int:
        """Everything before this offset is in the state."""
        return self._offset

    def wait_for(self, offset: int, seconds: float) -> bool:
        """Wait until the record at an offset is in the state; return whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: self._stopping or self._offset > offset, seconds)

    def outcome(self, offset: int) -> Outcome:
        """Return what became of a record that was read a short time ago."""
        with self._changed:
            return self._not_applied.get(offset, Outcome.APPLIED)

    def _run(self) -> None:
        while not self._stopping:
            try:
                with ConnectionPool(self._settings) as pool:
                    reader = BatchReader(pool, {self._partition: self._offset})
                    while not self._stopping:
                        for fetched in reader.poll(_POLL_MS):
                            self._apply(fetched)
                        reader.positions[self._partition] = self._offset
                        self._report_success()
            except Exception as error:  # noqa: BLE001 - without this thread no write is answered
                self._report(error)
                time.sleep(_RETRY_SECONDS)

    def _report(self, error: Exception) -> None:
        """Log the first failure of an outage."""
        if not self._failing and not self._stopping:
            self._failing = True
            log.warning("registry_topic_unreadable", error=repr(error))

    def _report_success(self) -> None:
        if self._failing:
            self._failing = False
            log.info("registry_topic_readable_again")

    def _apply(self, fetched: FetchedBatches) -> None:
        if fetched.error is not None and fetched.error.code is not ErrorCode.offset_out_of_range:
            raise fetched.error
        if fetched.error is not None or self._topic_id not in (None, fetched.topic_id):
            self._start_over(fetched)
            return
        self._topic_id = fetched.topic_id
        decoded = decode(
            fetched.data,
            start_offset=fetched.offset,
            aborted=fetched.aborted,
            columns=list(_COLUMNS),
        )
        rows = read_rows(decoded.columns)
        with self._changed:
            for offset, ts, key, value, headers in rows:
                self._apply_record(offset, ts, key, value, headers)
            if fetched.data.nbytes:
                self._offset = max(self._offset, decoded.next_offset)
            self._end = fetched.end
            self._changed.notify_all()

    def _apply_record(
        self,
        offset: int,
        ts: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
    ) -> None:
        claim, is_claim = read_claim(headers)
        outcome = self._state.apply(LogRecord(offset, key, value, ts, claim, is_claim))
        if outcome is Outcome.APPLIED:
            return
        # Other registries write many records of their own types, which is no reason to worry.
        write = log.debug if outcome is Outcome.UNKNOWN_TYPE else log.warning
        write("registry_record_passed_over", offset=offset, reason=outcome.name.lower())
        self._not_applied[offset] = outcome
        if len(self._not_applied) > _KEPT_OUTCOMES:
            self._not_applied.popitem(last=False)

    def _start_over(self, fetched: FetchedBatches) -> None:
        log.warning("registry_topic_restarted", offset=self._offset)
        with self._changed:
            self._state = RegistryState()
            self._not_applied.clear()
            self._offset = max(0, fetched.log_start)
            self._topic_id = fetched.topic_id
            self._changed.notify_all()


def _load_kernels() -> None:
    """Write and read a record, which loads compiled code: the first request is not to wait."""
    row = pa.record_batch({"key": [b"k"], "value": [b"v"]}, schema=_WARM_UP)
    decode(encode(row, timestamp_ms=0).data, columns=list(_COLUMNS))


def read_rows(
    columns: pa.RecordBatch,
) -> Iterator[tuple[int, int, bytes | None, bytes | None, Headers]]:
    """Return offset, milliseconds, key, value and headers of records.

    Times and names of headers are what their writer sent: no date and no text need come of them.
    """
    offsets, times, keys, values, headers = (columns.column(name) for name in _COLUMNS)
    return zip(
        offsets.to_pylist(),
        times.cast(pa.int64()).to_pylist(),
        keys.to_pylist(),
        values.to_pylist(),
        headers.cast(_HEADERS).to_pylist(),
        strict=True,
    )


def read_claim(headers: Headers) -> tuple[int | None, bool]:
    """Return the number of the claim that a record names, and whether it is that claim itself.

    >>> read_claim([{"key": b"headrace.claim", "value": b"17"}]), read_claim([])
    ((17, False), (None, False))
    >>> read_claim([{"key": b"headrace.claim", "value": b"=18"}])
    (18, True)
    """
    for each in headers:
        if each["key"] == CLAIM_HEADER.encode():
            text = each["value"] or b""
            number = text.removeprefix(b"=")
            if number.isdigit() and len(number) < 19:
                return int(number), number != text
    return None, False
