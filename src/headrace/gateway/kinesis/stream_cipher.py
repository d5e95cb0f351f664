"""The ciphers of streams: master keys from the gateway's file, data keys from the streams' state.

Rule 1: a stream that is to be encrypted is never written in plain text. A gateway that lacks the
master key refuses puts and reads with the service's KMS exceptions.
Rule 2: a record may be encrypted under a data key that this instance has not heard of yet. It reads
the state again before it takes the record for a plain one.
Rule 3: a record whose key is gone is not passed over, and not returned encrypted: readers get what
lies before it, and then the KMS exceptions. Without the key it cannot be distinguished from one
that a Kafka client forged, but for its time, which the broker sets: a key wrote nothing before it
was made, nor after it was retired. So no client can block a shard with a key that is out of use.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from headrace.gateway.kinesis.encryption.key_file import master_key_id
from headrace.gateway.kinesis.encryption.record_cipher import (
    RecordCipher,
    key_number,
    new_data_key,
    unwrapped,
    wrapped,
)
from headrace.gateway.kinesis.error import ServiceError, internal_failure, limit_exceeded
from headrace.gateway.kinesis.record.row import StoredRow
from headrace.gateway.kinesis.stream.data_key import DataKey
from headrace.gateway.kinesis.stream.stream_state import StreamState, StreamStatus

_DAY_MS: Final = 24 * 3_600_000
_MOST_PER_DAY: Final = 25
_KEPT_MS: Final = 367 * _DAY_MS
"""A record is kept for a year at most: an older key has no records any more."""

_CLOCKS_MS: Final = 600_000
"""How much the clocks of brokers and gateways may differ."""

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
        refresh: Callable[[], bool],
    ) -> "OpenedRows":
        """Return rows with their data, up to the first one whose key is lacking.

        Args:
            known: returns the stream's state.
            refresh: makes `known` up to date; returns whether it is.

        Raises:
            ServiceError: the state cannot be read again, and a row may be encrypted.
        """
        numbers = {key_number(row.value) for row in rows} - {None}
        if not numbers:
            return OpenedRows(list(rows))
        stream = known()
        newest = max((each.number for each in stream.data_keys), default=0)
        # No view is a day old: a greater number was made by no gateway.
        if not numbers.isdisjoint(range(newest + 1, newest + 1 + _MOST_PER_DAY)):
            if not refresh():
                raise internal_failure("The keys of the stream cannot be confirmed in time.")
            stream = known()
        ciphers: dict[int | None, RecordCipher] = {}
        refusals: dict[int | None, tuple[DataKey, ServiceError]] = {}
        for each in stream.data_keys:
            if each.number in numbers:
                try:
                    ciphers[each.number] = self._cipher(stream, each)
                except ServiceError as error:
                    refusals[each.number] = each, error
        opened: list[StoredRow] = []
        for row in rows:
            number = key_number(row.value)
            if number in refusals and _may_have_written(refusals[number][0], row):
                return OpenedRows(opened, refusals[number][1])
            cipher = ciphers.get(number)
            opened.append(row if cipher is None else _opened(row, cipher))
        return OpenedRows(opened)

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


@dataclass(frozen=True, slots=True)
class OpenedRows:
    """Rows with their data.

    Attributes:
        refusal: why the next row is not among them, if there is one.
    """

    rows: list[StoredRow]
    refusal: ServiceError | None = None


def _opened(row: StoredRow, cipher: RecordCipher) -> StoredRow:
    data = cipher.decrypt(row.value, row.key)
    return row if data is None else row._replace(value=data, is_encrypted=True)


def _may_have_written(key: DataKey, row: StoredRow) -> bool:
    if row.time_ms < key.created_ms - _CLOCKS_MS:
        return False
    return key.retired_ms is None or row.time_ms <= key.retired_ms + _CLOCKS_MS


def _retired(keys: Sequence[DataKey], now_ms: int) -> tuple[DataKey, ...]:
    retired = (
        replace(each, retired_ms=now_ms) if each.retired_ms is None else each for each in keys
    )
    return tuple(each for each in retired if (each.retired_ms or now_ms) > now_ms - _KEPT_MS)


def _purpose(stream: StreamState, number: int) -> bytes:
    return f"{stream.name}/{stream.created_ms}/{number}".encode()
