"""The ciphers of streams: master keys from the gateway's file, data keys from the streams' state.

Rule 1: a stream that is to be encrypted is never written in plain text. A gateway that lacks the
master key refuses puts and reads with the service's KMS exceptions.
Rule 2: a record may be encrypted under a data key that this instance has not heard of yet. It reads
the state again before it takes the record for a plain one.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from headrace.gateway.kinesis.encryption.key_file import master_key_id
from headrace.gateway.kinesis.encryption.record_cipher import (
    RecordCipher,
    key_number,
    new_data_key,
    unwrapped,
    wrapped,
)
from headrace.gateway.kinesis.error import ServiceError, limit_exceeded
from headrace.gateway.kinesis.record.row import StoredRow
from headrace.gateway.kinesis.stream.data_key import DataKey
from headrace.gateway.kinesis.stream.stream_state import StreamState, StreamStatus

_DAY_MS: Final = 24 * 3_600_000
_MOST_PER_DAY: Final = 25
_KEPT_MS: Final = 367 * _DAY_MS
"""A record is kept for a year at most: an older key has no records any more."""

_MOST_CIPHERS: Final = 4096


class StreamCiphers:
    """Finds and makes the ciphers of streams. Threads: any."""

    def __init__(self, master_keys: Mapping[str, bytes]) -> None:
        self._master_keys = master_keys
        self._lock = threading.Lock()
        self._ciphers: OrderedDict[tuple[str, int, int], RecordCipher] = OrderedDict()

    def started(self, stream: StreamState, key_id: str, now_ms: int) -> StreamState:
        """Return the stream with a new data key under a master key.

        Raises:
            ServiceError: there is no such master key, or there were too many changes today.
        """
        if stream.data_key is not None and stream.data_key.key_id == key_id:
            return stream
        master = master_key_id(self._master_keys, key_id)
        if master is None:
            raise self._no_key(key_id)
        keys = stream.data_keys
        if sum(each.created_ms > now_ms - _DAY_MS for each in keys) >= _MOST_PER_DAY:
            raise limit_exceeded(f"A stream gets at most {_MOST_PER_DAY} keys in 24 hours.")
        number = 1 + max((each.number for each in keys), default=0)
        purpose = _purpose(stream, number)
        new = DataKey(
            number=number,
            key_id=key_id,
            master=master,
            wrapped=wrapped(self._master_keys[master], new_data_key(), purpose),
            created_ms=now_ms,
        )
        kept = (*_retired(keys, now_ms), new)
        return stream.changed(data_keys=kept, status=StreamStatus.UPDATING, awaits_leases=True)

    def stopped(self, stream: StreamState, now_ms: int) -> StreamState:
        """Return the stream without encryption of new records. Older ones can still be read."""
        return stream.changed(
            data_keys=_retired(stream.data_keys, now_ms), status=StreamStatus.UPDATING
        )

    def encrypting(self, stream: StreamState) -> RecordCipher | None:
        """Return what encrypts new records, or None if they are plain.

        Raises:
            ServiceError: this gateway lacks the master key.
        """
        return None if stream.data_key is None else self._cipher(stream, stream.data_key)

    def opened(
        self,
        rows: Sequence[StoredRow],
        known: Callable[[], StreamState],
        refresh: Callable[[], object],
    ) -> list[StoredRow]:
        """Return rows with their data.

        Args:
            known: returns the stream's state.
            refresh: makes `known` up to date.

        Raises:
            ServiceError: this gateway lacks a master key.
        """
        numbers = {key_number(row.value) for row in rows} - {None}
        if not numbers:
            return list(rows)
        stream = known()
        if numbers - {each.number for each in stream.data_keys}:
            refresh()
            stream = known()
        ciphers = {
            each.number: self._cipher(stream, each)
            for each in stream.data_keys
            if each.number in numbers
        }
        return [_opened(row, ciphers) for row in rows]

    def _cipher(self, stream: StreamState, key: DataKey) -> RecordCipher:
        name = (stream.name, stream.created_ms, key.number)
        with self._lock:
            found = self._ciphers.get(name)
            if found is not None:
                self._ciphers.move_to_end(name)
                return found
            master = self._master_keys.get(key.master)
            if master is None:
                raise self._no_key(key.key_id)
            data_key = unwrapped(master, key.wrapped, _purpose(stream, key.number))
            if data_key is None:
                raise ServiceError(
                    "KMSInvalidStateException",
                    f"Key {key.master} is another one than the one that stream {stream.name} was "
                    "encrypted with.",
                )
            made = RecordCipher(data_key, key.number, f"{stream.name}/{stream.created_ms}".encode())
            self._ciphers[name] = made
            if len(self._ciphers) > _MOST_CIPHERS:
                self._ciphers.popitem(last=False)
            return made

    def _no_key(self, key_id: str) -> ServiceError:
        where = "its file of encryption keys does not have it"
        if not self._master_keys:
            where = "it was started without --encryption-keys FILE"
        return ServiceError(
            "KMSNotFoundException", f"Key {key_id[:200]} is not known to this gateway: {where}."
        )


def _opened(row: StoredRow, ciphers: Mapping[int, RecordCipher]) -> StoredRow:
    number = key_number(row.value)
    cipher = None if number is None else ciphers.get(number)
    data = None if cipher is None else cipher.decrypt(row.value, row.key)
    return row if data is None else row._replace(value=data, is_encrypted=True)


def _retired(keys: Sequence[DataKey], now_ms: int) -> tuple[DataKey, ...]:
    retired = (
        replace(each, retired_ms=now_ms) if each.retired_ms is None else each for each in keys
    )
    return tuple(each for each in retired if (each.retired_ms or now_ms) > now_ms - _KEPT_MS)


def _purpose(stream: StreamState, number: int) -> bytes:
    return f"{stream.name}/{stream.created_ms}/{number}".encode()
