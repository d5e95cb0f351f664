"""Reads and changes the state of streams. Any number of instances may do so at once.

A change takes over the transactional id of its stream (InitProducerId), which ends and fences any
other change of the same stream, then reads the topic to its end, computes the next state, and
commits it. So changes of one stream form one row, and none is computed from an old state.
"""

import random
import threading
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any, Final

import pyarrow as pa

from headrace.client.error import ClientError, ProducerFenced
from headrace.client.settings import ClientSettings
from headrace.client.write.writer import Writer
from headrace.gateway.kinesis.error import (
    ServiceError,
    cluster_failure,
    internal_failure,
    not_found,
)
from headrace.gateway.kinesis.identity.seal import Seal, new_key
from headrace.gateway.kinesis.store.lease import LEASE_SECONDS, RENEW_SECONDS, lease_clock
from headrace.gateway.kinesis.store.stream_tail import StreamTail
from headrace.gateway.kinesis.store.stream_topic import (
    SEAL_NAME,
    STREAM_TOPIC,
    create_stream_topic,
    write_document,
    write_seal_key,
    write_stream,
)
from headrace.gateway.kinesis.stream.shard import Shard
from headrace.gateway.kinesis.stream.stream_state import StreamState
from headrace.gateway.kinesis.wait import Wait

Step = Callable[[StreamState | None], StreamState | None]
"""Computes the next state of a stream from the present one; None is no stream."""

DocumentStep = Callable[[dict[str, Any] | None], dict[str, Any] | None]
"""Computes the next state of a record that is no stream; None is no record."""

_TRIES: Final = 8
_REFRESH_SECONDS: Final = 30.0
VOUCH_SECONDS: Final = 20.0
_TRANSACTION_TIMEOUT_MS: Final = 10_000
_LOCKS: Final = 64
_SCHEMA: Final = pa.schema([("key", pa.binary()), ("value", pa.binary())])


class StreamStore:
    """The streams of one cluster, as one instance sees them.

    Threads: any. Example:
        store = StreamStore(settings)
        store.start()
        store.change("clicks", lambda stream: new_stream("clicks", 2, now_ms))
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self.tail = StreamTail(settings)
        self._locks = [threading.Lock() for _ in range(_LOCKS)]
        self._seal: Seal | None = None

    def start(self) -> None:
        """Create the topic if need be, and read it.

        Raises:
            ClientError: no broker can be reached, or it refuses.
        """
        create_stream_topic(self._settings)
        self.tail.start()
        if not self.tail.refresh(_REFRESH_SECONDS):
            raise ClientError(f"topic {STREAM_TOPIC} cannot be read to its end")

    def stop(self) -> None:
        self.tail.stop()

    @property
    def streams(self) -> Mapping[str, StreamState]:
        return self.tail.streams

    @property
    def documents(self) -> Mapping[str, dict[str, Any]]:
        return self.tail.documents

    @property
    def seal(self) -> Seal:
        """What iterators are sealed with; the first instance makes the key."""
        if self._seal is None:
            if self.tail.seal_key is None:
                self._change(SEAL_NAME, self._new_seal_key)
            assert self.tail.seal_key is not None
            self._seal = Seal(self.tail.seal_key)
        return self._seal

    def _new_seal_key(self) -> bytes | None:
        return write_seal_key(new_key()) if self.tail.seal_key is None else None

    def change(self, name: str, step: Step) -> StreamState | None:
        """Change a stream; return its new state. When this returns, this instance's view has it.

        Args:
            step: returns the state that it was given to change nothing. It may be called several
                times, and raises a `ServiceError` to refuse.

        Raises:
            ServiceError: what `step` raises, or InternalFailure.
        """
        outcome: list[StreamState | None] = [None]

        def value() -> bytes | None:
            current = self.streams.get(name)
            outcome[0] = step(current)
            if outcome[0] is current:
                return None
            return b"" if outcome[0] is None else write_stream(outcome[0])

        self._change(name, value)
        return outcome[0]

    def change_document(self, name: str, step: DocumentStep) -> None:
        """Change a record that is no stream, as `change` changes streams."""

        def value() -> bytes | None:
            current = self.documents.get(name)
            changed = step(current)
            if changed is current:
                return None
            return b"" if changed is None else write_document(changed)

        self._change(name, value)

    def _change(self, name: str, value: Callable[[], bytes | None]) -> None:
        """Write a record. `value` returns it, empty for a tombstone, or None to write nothing."""
        with self._locks[hash(name) % _LOCKS]:
            for attempt in range(_TRIES):
                try:
                    self._change_once(name, value)
                except ProducerFenced:  # another instance changes the same stream
                    time.sleep(random.uniform(0.02, 0.1) * (attempt + 1))
                except ClientError as error:
                    raise cluster_failure("The change is not made", error) from error
                else:
                    return
        raise internal_failure(f"Stream {name} is changed by too many requests at once.")

    def _change_once(self, name: str, value: Callable[[], bytes | None]) -> None:
        with Writer(
            self._settings,
            STREAM_TOPIC,
            transactional_id=f"{STREAM_TOPIC}/{name}",
            transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
        ) as writer:
            writer.init_transactions()
            self._refresh()
            record = value()
            if record is None:
                return
            row = {"key": [name.encode()], "value": [record or None]}
            with writer.transaction():
                writer.write(pa.record_batch(row, schema=_SCHEMA))
        self._refresh()

    def _refresh(self) -> None:
        if not self.tail.refresh(_REFRESH_SECONDS):
            raise internal_failure(f"Topic {STREAM_TOPIC} cannot be read to its end.")

    def prepare_to_vouch(self) -> None:
        """Have the view confirmed while a put or a read is under way, which will need it."""
        self.tail.want(lease_clock() - RENEW_SECONDS)

    def may_be_plain(self, stream: StreamState) -> bool | None:
        """Return whether records of a stream may be written in plain text at this moment.

        Returns:
            None while the view is not fresh enough to say so: ask again when it has changed.
        """
        self.prepare_to_vouch()
        confirmed_at = self.tail.confirmed_at
        known = self.streams.get(stream.name)
        is_same = known is not None and known.created_ms == stream.created_ms
        if known is None or not is_same or known.data_key is not None:
            return False
        return True if lease_clock() < confirmed_at + LEASE_SECONDS else None

    def vouch(self, stream: StreamState, number: int, at: float) -> Shard | None:
        """Return a shard as it was at a moment, or later, according to a fresh view.

        If the shard is open, everything that was in its partition at that moment lies before its
        end, wherever that will be.

        Args:
            at: a moment of `lease_clock`, not in the future.

        Returns:
            None while the view is not fresh enough, or the shard is being closed: ask again when
            the view has changed.

        Raises:
            ServiceError: the stream is gone.
        """
        if stream.plain:
            return stream.shards[number]
        self.tail.want(at - RENEW_SECONDS)
        confirmed_at = self.tail.confirmed_at
        known = self.streams.get(stream.name)
        if at >= confirmed_at + LEASE_SECONDS:
            return None
        if known is None or known.created_ms != stream.created_ms:
            raise not_found(f"Stream {stream.name} not found.")
        return None if known.is_closing(number) else known.shard(number)

    def vouched_shard(self, stream: StreamState, number: int, at: float) -> Shard:
        """Return what `vouch` returns in the end. Waits, so it is for threads of their own.

        Raises:
            ServiceError: the stream is gone, or the view cannot be confirmed.
        """
        deadline = lease_clock() + VOUCH_SECONDS
        while (shard := self.vouch(stream, number, at)) is None:
            if lease_clock() > deadline:
                raise not_vouched()
            self.tail.wait(0.1)
        return shard

    def vouching(self, stream: StreamState, number: int, at: float) -> Generator[Wait, None, Shard]:
        """Return what `vouch` returns in the end, and hold no thread meanwhile.

        Raises:
            ServiceError: the stream is gone, or the view cannot be confirmed.
        """
        deadline = lease_clock() + VOUCH_SECONDS
        while (shard := self.vouch(stream, number, at)) is None:
            left = deadline - lease_clock()
            if left <= 0:
                raise not_vouched()
            yield Wait(left, condition=lambda: self.vouch(stream, number, at) is not None)
        return shard


def not_vouched() -> ServiceError:
    return internal_failure("The shards of the stream cannot be confirmed in time.")
