"""SubscribeToShard: records pushed to a registered consumer for five minutes.

A subscription is a row of long polls: the broker answers as soon as there is a record, and the
event is on its way. An event without records is sent every `_IDLE_SECONDS`, with the position
reached.

Rule 1: one subscription per consumer and shard. A second one within five seconds is refused; later
it takes over, and the first one ends; if its client does not read, its response is cut short after
`TAKE_OVER_SECONDS`. Each gateway counts its own.
Rule 2: a client that does not read holds one event, not many: the next read begins when the event
has been handed to the connection.
"""

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from headrace.gateway.kinesis.error import ServiceError, in_use, limit_exceeded
from headrace.gateway.kinesis.operation.consumer import named_consumer
from headrace.gateway.kinesis.operation.dry_run import refuse_dry_run
from headrace.gateway.kinesis.operation.get import (
    child_fields,
    named_shard,
    read_shard,
    record_fields,
    start_offset,
)
from headrace.gateway.kinesis.service import KinesisService, Request
from headrace.gateway.kinesis.stream.shard import Shard
from headrace.gateway.kinesis.stream.stream_state import StreamState

LIFE_SECONDS: Final = 300.0
TAKE_OVER_SECONDS: Final = 5.0
MOST: Final = 64
"""Subscriptions of one gateway: each has a thread."""

_POLL_MS: Final = 500
_IDLE_SECONDS: Final = 2.0
_MOST_ROWS: Final = 1_000
_MOST_BYTES: Final = 1 << 20
"""Of an event: every client may hold one without reading it."""


class Subscriptions:
    """The running subscriptions of one gateway. Threads: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[tuple[str, str], Subscription] = {}

    def open(self, service: KinesisService, request: Request) -> "Subscription":
        """Check a request and begin a subscription.

        Raises:
            ServiceError: there is no such consumer or shard, or another subscription is too young.
        """
        stream, consumer = named_consumer(service, request)
        shard = named_shard(service, stream, request["ShardId"])
        start = request["StartingPosition"]
        offset = start_offset(
            service,
            stream,
            shard,
            start["Type"],
            start.get("SequenceNumber"),
            start.get("Timestamp"),
        )
        refuse_dry_run(request)
        key = (f"{stream.name}/{consumer.name}/{consumer.created_ms}", shard.id)
        now = time.monotonic()
        with self._lock:
            before = self._running.get(key)
            if before is not None and now - before.began < TAKE_OVER_SECONDS:
                raise in_use(
                    f"Another active subscription exists for this consumer: {consumer.name} "
                    f"under stream {stream.name}, shard {shard.id}."
                )
            if before is None and len(self._running) >= MOST:
                raise limit_exceeded(f"A gateway has at most {MOST} subscriptions.")
            if before is not None:
                before.end()
            opened = Subscription(service, stream, shard, offset, now)
            self._running[key] = opened
        return opened

    def close(self, subscription: "Subscription") -> None:
        subscription.end()
        with self._lock:
            self._running = {
                key: each for key, each in self._running.items() if each is not subscription
            }


class Subscription:
    """One subscription: an iterator of events, for one thread."""

    def __init__(
        self,
        service: KinesisService,
        stream: StreamState,
        shard: Shard,
        offset: int,
        began: float,
    ) -> None:
        self._service = service
        self._stream = stream
        self._shard = shard
        self._offset = offset
        self.began = began
        self._ended = threading.Event()
        self._tell_end: Callable[[], object] = lambda: None

    def end(self) -> None:
        """Stop before the next event. Threads: any."""
        self._ended.set()
        self._tell_end()

    def when_ended(self, tell: Callable[[], object]) -> None:
        """Call this when it ends, from whatever thread ends it, or at once if it has."""
        self._tell_end = tell
        if self._ended.is_set():
            tell()

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield events until the shard ends, or five minutes are over.

        Raises:
            ServiceError: the stream is gone, or the log cannot be read.
        """
        sent_at = time.monotonic()
        while not self._ended.is_set() and time.monotonic() - self.began < LIFE_SECONDS:
            stream = self._service.store.streams.get(self._stream.name)
            if not self._stream.plain and (
                stream is None or stream.created_ms != self._stream.created_ms
            ):
                raise _gone(self._service, self._stream)
            shard = (stream or self._stream).shard(self._shard.number) or self._shard
            read = read_shard(
                self._service, self._stream, shard, self._offset, _MOST_ROWS, _POLL_MS, _MOST_BYTES
            )
            self._offset = read.next_offset
            records = [record_fields(read.shard, row) for row in read.rows]
            now = time.monotonic()
            if read.at_end:
                event = self._event(records, 0)
                event["ChildShards"] = child_fields(self._service, self._stream, read.shard)
                # Without a next position: the shard has ended.
                event.pop("ContinuationSequenceNumber")
                yield event
                return
            if records or now - sent_at > _IDLE_SECONDS:
                sent_at = now
                yield self._event(records, read.behind_ms)

    def _event(self, records: list[dict[str, Any]], behind_ms: int) -> dict[str, Any]:
        number = self._shard.position_before(self._offset)
        return {
            "Records": records,
            "ContinuationSequenceNumber": records[-1]["SequenceNumber"] if records else number,
            "MillisBehindLatest": behind_ms,
            "ChildShards": [],
        }


def _gone(service: KinesisService, stream: StreamState) -> Exception:
    error = service.no_stream(stream.name)
    assert isinstance(error, ServiceError)
    return error
