"""PutRecord and PutRecords.

Rule 1: a record is acknowledged only when a fresh view of the streams says that it lies before its
shard's end (`StreamStore.vouched_shard`). A record behind the end is put again, into the child.
Rule 2: a malformed record fails the whole request. What a shard's limits or a broker refuse fails
alone, in PutRecords.
Rule 3: a record is sent in plain text only while a fresh view says that its stream is not
encrypted. One that waited for too long is encrypted then (decision 0033).
"""

import random
import time
from collections.abc import Generator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from headrace.client.error import BrokerError, ClientError
from headrace.gateway.kinesis.encryption.record_cipher import RecordCipher
from headrace.gateway.kinesis.error import (
    ServiceError,
    cluster_failure,
    internal_failure,
    invalid_argument,
    throughput_exceeded,
    validation,
)
from headrace.gateway.kinesis.operation.dry_run import refuse_dry_run
from headrace.gateway.kinesis.record.permit import Permit, PermitEnded
from headrace.gateway.kinesis.record.placed_rows import PlacedRows
from headrace.gateway.kinesis.record.put_queue import RETRY_SECONDS
from headrace.gateway.kinesis.record.row import Row, ShardLog
from headrace.gateway.kinesis.service import KinesisService, Request, Steps
from headrace.gateway.kinesis.store.lease import lease_clock
from headrace.gateway.kinesis.store.stream_store import VOUCH_SECONDS, not_vouched
from headrace.gateway.kinesis.stream.hash_key import LARGEST, hash_key
from headrace.gateway.kinesis.stream.shard import Shard
from headrace.gateway.kinesis.stream.stream_state import Distribution, StreamMode, StreamState
from headrace.gateway.kinesis.wait import Wait
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

_MOST_BYTES: Final = 10 << 20
_MOST_TRIES: Final = 4
_BATCH_OVERHEAD: Final = 64
_TOO_LARGE: Final = (ErrorCode.message_too_large, ErrorCode.record_list_too_large)
_PUT_SECONDS: Final = 120.0  # the queue itself gives up much earlier


@dataclass(slots=True)
class _Put:
    """One record on its way: where it is to go, then where it went."""

    row: Row
    key: int
    placed: tuple[Shard, int, int] | None = None
    error: ServiceError | None = None


def put_record(service: KinesisService, request: Request) -> Steps:
    stream = service.served_stream(request)
    put = _checked(request, stream)
    refuse_dry_run(request)
    stream = yield from _put(service, stream, [put])
    if put.error is not None:
        raise put.error
    return {**_placed_fields(put), "EncryptionType": _encryption_type(stream)}


def put_records(service: KinesisService, request: Request) -> Steps:
    stream = service.served_stream(request)
    puts = [_checked(each, stream) for each in request["Records"]]
    if sum(len(put.row.value) + len(put.row.key or b"") for put in puts) > _MOST_BYTES:
        raise invalid_argument("Records size exceeds 10 MB limit")
    refuse_dry_run(request)
    stream = yield from _put(service, stream, puts)
    return {
        "FailedRecordCount": sum(put.error is not None for put in puts),
        "Records": [_result(put) for put in puts],
        "EncryptionType": _encryption_type(stream),
    }


def _checked(record: dict[str, Any], stream: StreamState) -> _Put:
    text = record.get("PartitionKey")
    is_even = stream.distribution is Distribution.AUTO
    if text is None and not is_even:
        raise validation(
            "1 validation error detected: Value null at 'partitionKey' failed to satisfy "
            "constraint: Member must not be null"
        )
    explicit = record.get("ExplicitHashKey")
    if is_even:  # keys are kept, and decide nothing
        key = random.getrandbits(128)
    else:
        key = hash_key(text or "") if explicit is None else int(explicit)
    if key > LARGEST or (is_even and int(explicit or 0) > LARGEST):
        raise invalid_argument(
            f"Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]. "
            f"Specified value was {explicit}"
        )
    row = Row(None if text is None else text.encode(), record["Data"], explicit)
    if len(row.value) + len(row.key or b"") > stream.max_record_kib * 1024:
        raise _too_large(f"less than or equal to {stream.max_record_kib * 1024}")
    most = stream.most_batch_bytes
    if most is not None and row.size_bytes + _BATCH_OVERHEAD > most and row.batch_bytes > most:
        raise _too_large(f"less than or equal to {len(row.value) - (row.batch_bytes - most)}")
    return _Put(row, key)


def _too_large(what: str) -> ServiceError:
    return validation(
        "1 validation error detected: Value at 'data' failed to satisfy constraint: Member "
        f"must have length {what}"
    )


def _encryption_type(stream: StreamState) -> str:
    return "NONE" if stream.data_key is None else "KMS"


def _placed_fields(put: _Put) -> dict[str, Any]:
    assert put.placed is not None
    shard, offset, time_ms = put.placed
    return {"ShardId": shard.id, "SequenceNumber": shard.sequence_number(offset, time_ms)}


def _result(put: _Put) -> dict[str, Any]:
    if put.error is None:
        return _placed_fields(put)
    code = put.error.code.replace("InternalFailureException", "InternalFailure")
    return {"ErrorCode": code, "ErrorMessage": put.error.message}


def _put(
    service: KinesisService, stream: StreamState, puts: list[_Put]
) -> Generator[Wait, None, StreamState]:
    """Put records until each is before its shard's end, or has an error.

    Returns:
        The stream as the last of them were put.

    Raises:
        ServiceError: this gateway lacks the stream's key, and nothing is put.
    """
    cipher = service.ciphers.encrypting(stream)
    _apply_limits(service, stream, puts)
    left = [put for put in puts if put.error is None]
    for _ in range(_MOST_TRIES):
        if not left:
            return stream
        left = yield from _put_once(service, stream, cipher, left)
        if left and not stream.plain:
            try:
                stream = service.served_stream({"StreamName": stream.name})
                cipher = service.ciphers.encrypting(stream)
            except ServiceError as error:
                for put in left:
                    put.error = error
                return stream
    for put in left:
        put.error = internal_failure("The shards of the stream change too fast.")
    return stream


def _apply_limits(service: KinesisService, stream: StreamState, puts: list[_Put]) -> None:
    if not service.limits.enabled:
        return
    now = time.monotonic()
    for put in puts:
        shard = stream.shard_for(put.key)
        size_bytes = len(put.row.value) + len(put.row.key or b"")
        if not service.limits.allows_put(stream.name, shard.number, size_bytes, now):
            put.error = throughput_exceeded(
                f"Rate exceeded for shard {shard.id} in stream {stream.name} under account "
                f"{service.account.id}."
            )
            refused = {"WriteProvisionedThroughputExceeded": 1.0}
            service.metrics.count(stream.metrics, stream.name, shard.id, refused)


def _put_once(
    service: KinesisService, stream: StreamState, cipher: RecordCipher | None, puts: list[_Put]
) -> Generator[Wait, None, list[_Put]]:
    """Put records into the shards of this state; return those that are to be put again."""
    service.store.prepare_to_vouch()
    permit = None if cipher is not None or stream.plain else _plain_permit(service, stream)
    by_shard: dict[int, list[_Put]] = {}
    for put in puts:
        by_shard.setdefault(stream.shard_for(put.key).number, []).append(put)
    sent: list[tuple[Shard, list[_Put], list[Future[PlacedRows]]]] = []
    again: list[_Put] = []
    for number, group in by_shard.items():
        shard = yield from _shard_to_put_into(service, stream, number, group)
        if shard is None:
            continue
        if not shard.is_open:
            again += group
            continue
        try:
            rows, most_bytes = [_row(put, cipher) for put in group], stream.most_batch_bytes
            futures = service.writer.put(_log(stream, shard), rows, most_bytes, permit)
        except ClientError as error:
            _fail(group, error)
            continue
        sent.append((shard, group, futures))
    unfinished = list({id(each): each for _, _, futures in sent for each in futures}.values())
    if unfinished:
        yield Wait(_PUT_SECONDS, unfinished)
    for shard, group, futures in sent:
        again += yield from _confirm(service, stream, shard, group, futures)
    return again


def _row(put: _Put, cipher: RecordCipher | None) -> Row:
    if cipher is None:
        return put.row
    return put.row._replace(value=cipher.encrypt(put.row.value, put.row.key))


def _plain_permit(service: KinesisService, stream: StreamState) -> Permit:
    """Return a permit that lasts as long as a fresh view says that the stream is not encrypted."""
    deadline = lease_clock() + RETRY_SECONDS + VOUCH_SECONDS

    def permit() -> bool | None:
        found = service.store.may_be_plain(stream)
        return False if found is None and lease_clock() > deadline else found

    return permit


def _log(stream: StreamState, shard: Shard) -> ShardLog:
    """Return where a shard's records go: not to a later topic of the same name."""
    topic_id = UUID(stream.topic_id) if stream.topic_id else None
    return ShardLog(TopicPartition(stream.name, shard.partition), topic_id)


def _shard_to_put_into(
    service: KinesisService, stream: StreamState, number: int, group: list[_Put]
) -> Generator[Wait, None, Shard | None]:
    """Wait while a shard closes: what is put meanwhile would have to be put again."""
    shard = stream.shard(number)
    if shard is not None and not stream.is_closing(number):
        return shard
    try:
        return (yield from service.store.vouching(stream, number, lease_clock()))
    except ServiceError as error:
        for put in group:
            put.error = error
        return None


def _confirm(
    service: KinesisService,
    stream: StreamState,
    shard: Shard,
    group: list[_Put],
    futures: "list[Future[PlacedRows]]",
) -> Generator[Wait, None, list[_Put]]:
    """Note where records went; return those that lie behind their shard's end, or were not sent.

    A record is not sent in plain text if the stream is encrypted by now.
    """
    first_of: dict[int, int] = {}
    placed: list[tuple[_Put, int, int]] = []
    again: list[_Put] = []
    for at, (put, future) in enumerate(zip(group, futures, strict=True)):
        index = at - first_of.setdefault(id(future), at)
        try:
            offset, time_ms = future.result(0).place(index)
        except PermitEnded:
            if service.store.may_be_plain(stream) is None:
                put.error = not_vouched()
            else:
                again.append(put)
        except (ClientError, TimeoutError) as error:
            _fail([put], error)
        else:
            placed.append((put, offset, time_ms))
    if not placed:
        return again
    try:
        known = yield from service.store.vouching(stream, shard.number, lease_clock())
    except ServiceError as error:
        for put, _, _ in placed:
            put.error = error
        return again
    written: list[tuple[int, int]] = []
    for put, offset, time_ms in placed:
        if known.last is None or offset < known.last:
            put.placed = (known, offset, time_ms)
            written.append((put.key, len(put.row.value) + len(put.row.key or b"")))
        else:
            again.append(put)
    if stream.mode is StreamMode.ON_DEMAND:
        service.demand.count(stream.name, written, time.monotonic())
    size = sum(size_bytes for _, size_bytes in written)
    incoming = {"IncomingBytes": float(size), "IncomingRecords": float(len(written))}
    service.metrics.count(stream.metrics, stream.name, shard.id, incoming)
    return again


def _fail(puts: list[_Put], error: Exception) -> None:
    if isinstance(error, BrokerError) and error.code in _TOO_LARGE:
        failure = _too_large("that fits into the topic's max.message.bytes")
    else:
        failure = cluster_failure("The record may not be written", error)
    for put in puts:
        put.error = failure
