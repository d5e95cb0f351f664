"""GetShardIterator and GetRecords."""

import time
from collections.abc import Generator
from typing import Any, Final

from headrace.client.error import ClientError
from headrace.client.read.offset_lookup import LATEST
from headrace.gateway.kinesis.error import (
    ServiceError,
    cluster_failure,
    invalid_argument,
    not_found,
    throughput_exceeded,
)
from headrace.gateway.kinesis.identity.sequence_number import SequenceNumber
from headrace.gateway.kinesis.identity.shard_iterator import ShardIterator
from headrace.gateway.kinesis.operation.dry_run import refuse_dry_run
from headrace.gateway.kinesis.protocol.timestamp import Timestamp
from headrace.gateway.kinesis.record.row import StoredRow
from headrace.gateway.kinesis.record.shard_reader import MOST_BYTES, ReadRows
from headrace.gateway.kinesis.service import KinesisService, Request, Response, Steps
from headrace.gateway.kinesis.store.lease import lease_clock
from headrace.gateway.kinesis.stream.shard import NO_PARTITION, Shard, shard_id, shard_number
from headrace.gateway.kinesis.stream.stream_state import StreamState
from headrace.gateway.kinesis.wait import Wait
from headrace.model.ids import TopicPartition

_MOST_RECORDS: Final = 10_000
_AT_NUMBER: Final = ("AT_SEQUENCE_NUMBER", "AFTER_SEQUENCE_NUMBER")


def get_shard_iterator(service: KinesisService, request: Request) -> Response:
    stream = service.served_stream(request)
    shard = named_shard(service, stream, request["ShardId"])
    offset = start_offset(
        service,
        stream,
        shard,
        request["ShardIteratorType"],
        request.get("StartingSequenceNumber"),
        request.get("Timestamp"),
    )
    refuse_dry_run(request)
    return {"ShardIterator": _iterator(service, stream, shard, offset)}


def named_shard(service: KinesisService, stream: StreamState, name: str) -> Shard:
    """Return the shard of an id.

    Raises:
        ServiceError: there is none.
    """
    number = shard_number(name)
    shard = None if number is None else stream.shard(number)
    if shard is None:
        raise not_found(
            f"Shard {name} in stream {stream.name} under account {service.account.id} "
            "does not exist"
        )
    return shard


def start_offset(
    service: KinesisService,
    stream: StreamState,
    shard: Shard,
    kind: str,
    number: str | None,
    moment: Timestamp | None,
) -> int:
    """Return the offset at which a reader begins.

    Raises:
        ServiceError: the sequence number or the time is missing, or not of this shard.
    """
    if kind in _AT_NUMBER:
        if number is None:
            raise invalid_argument(f"Must specify StartingSequenceNumber for {kind}.")
        return _offset_of(service, stream, shard, kind, number)
    if number is not None:
        raise invalid_argument(f"Must not specify StartingSequenceNumber for {kind}.")
    if kind == "AT_TIMESTAMP" and moment is None:
        raise invalid_argument(
            "Must specify timestamp parameter for iterator of type AT_TIMESTAMP."
        )
    if kind == "TRIM_HORIZON":
        return shard.first
    if shard.partition == NO_PARTITION:
        return 0
    if kind == "LATEST" and shard.last is not None:
        return shard.last
    time_ms = LATEST if moment is None else max(0, moment.ms)
    if moment is not None and time_ms > service.now_ms():
        raise invalid_argument(
            "The timestampInMillis parameter cannot be greater than the currentTimestampInMillis."
        )
    try:
        offset = service.reader.offset_at(TopicPartition(stream.name, shard.partition), time_ms)
    except ClientError as error:
        raise cluster_failure("The shard cannot be read", error) from error
    return max(shard.first, offset if shard.last is None else min(offset, shard.last))


def _offset_of(
    service: KinesisService, stream: StreamState, shard: Shard, kind: str, text: str
) -> int:
    number = SequenceNumber.parse(text)
    if number is None and text == "0":
        return shard.first
    own = (shard.created_ms // 1000, shard.number)
    if number is None or (number.created_s, number.shard) != own:
        raise invalid_argument(
            f"StartingSequenceNumber {text} used in GetShardIterator on shard {shard.id} in stream "
            f"{stream.name} under account {service.account.id} is invalid."
        )
    offset = number.offset + (kind == "AFTER_SEQUENCE_NUMBER" and not number.before)
    return max(shard.first, offset if shard.last is None else min(offset, shard.last))


def get_records(service: KinesisService, request: Request) -> Steps:
    position = ShardIterator.opened(request["ShardIterator"], service.store.seal, service.now_ms())
    if "StreamARN" in request and service.stream_name(request) != position.stream:
        raise invalid_argument("The ShardIterator is not of the stream of StreamARN.")
    stream = service.served_stream({"StreamName": position.stream})
    if stream.created_ms != position.stream_created_ms:
        raise service.no_stream(stream.name)
    shard = named_shard(service, stream, shard_id(position.shard))
    refuse_dry_run(request)
    if not service.limits.allows_read(stream.name, shard.number, time.monotonic()):
        refused = {"ReadProvisionedThroughputExceeded": 1.0}
        service.metrics.count(stream.metrics, stream.name, shard.id, refused)
        raise throughput_exceeded(
            f"Rate exceeded for shard {shard.id} in stream {stream.name} under account "
            f"{service.account.id}."
        )
    limit = request.get("Limit", _MOST_RECORDS)
    read = yield from _reading(service, stream, shard, position.offset, limit)
    size = sum(len(each.value) + len(each.key or b"") for each in read.rows)
    service.limits.count_read(stream.name, shard.number, size, time.monotonic())
    response: Response = {
        "Records": [record_fields(read.shard, row) for row in read.rows],
        "MillisBehindLatest": read.behind_ms,
    }
    if read.at_end:
        response["ChildShards"] = child_fields(service, stream, read.shard)
    else:
        response["NextShardIterator"] = _iterator(service, stream, shard, read.next_offset)
    return response


class ShardRead:
    """What was read of a shard, according to a view that is fresh enough: no row behind its end."""

    __slots__ = ("at_end", "behind_ms", "next_offset", "rows", "shard")

    def __init__(
        self, shard: Shard, rows: list[StoredRow], next_offset: int, end: int, now_ms: int
    ) -> None:
        self.shard = shard
        self.rows = rows
        self.next_offset = next_offset if shard.last is None else min(next_offset, shard.last)
        self.at_end = shard.last is not None and self.next_offset >= shard.last
        caught_up = self.at_end or next_offset >= end
        youngest = self.rows[-1].time_ms if self.rows else now_ms - 1
        self.behind_ms = 0 if caught_up else max(1, now_ms - youngest)


def read_shard(
    service: KinesisService,
    stream: StreamState,
    shard: Shard,
    offset: int,
    limit: int,
    wait_ms: int = 0,
    most_bytes: int = MOST_BYTES,
) -> ShardRead:
    """Read records of a shard, none behind its end. May wait, so it is for threads of their own.

    Raises:
        ServiceError: the log cannot be read, or the view cannot be confirmed.
    """
    read = _read_rows(service, stream, shard, offset, limit, wait_ms, most_bytes)
    if shard.is_open:
        shard = service.store.vouched_shard(stream, shard.number, lease_clock())
    return _opened(service, stream, shard, read)


def _reading(
    service: KinesisService, stream: StreamState, shard: Shard, offset: int, limit: int
) -> Generator[Wait, None, ShardRead]:
    """Read as `read_shard` does, and hold no thread while the shard is being closed."""
    if shard.is_open:
        service.store.prepare_to_vouch()
    if stream.is_closing(shard.number):  # what is read now might have to be read again
        shard = yield from service.store.vouching(stream, shard.number, lease_clock())
    read = _read_rows(service, stream, shard, offset, limit)
    if shard.is_open:
        shard = yield from service.store.vouching(stream, shard.number, lease_clock())
    return _opened(service, stream, shard, read)


def _read_rows(
    service: KinesisService,
    stream: StreamState,
    shard: Shard,
    offset: int,
    limit: int,
    wait_ms: int = 0,
    most_bytes: int = MOST_BYTES,
) -> ReadRows:
    if shard.last is not None and offset >= shard.last:
        return ReadRows([], shard.last, shard.last)
    partition = TopicPartition(stream.name, shard.partition)
    try:
        return service.reader.read(partition, offset, shard.last, limit, wait_ms, most_bytes)
    except ClientError as error:
        raise cluster_failure("The shard cannot be read", error) from error


def _opened(
    service: KinesisService, stream: StreamState, shard: Shard, read: ReadRows
) -> ShardRead:
    """Return what was read, decrypted if need be, and count it.

    Raises:
        ServiceError: the first record cannot be decrypted. One behind others ends what is returned.
    """
    rows = [row for row in read.rows if shard.last is None or row.offset < shard.last]
    opened = service.opened(stream, rows)
    next_offset = read.next_offset
    if opened.refusal is not None:
        sealed = rows[len(opened.rows)]
        if not opened.rows:
            raise _sealed(shard, sealed, opened.refusal)
        next_offset = sealed.offset
    found = ShardRead(shard, opened.rows, next_offset, read.end, service.now_ms())
    _count(service, stream, found)
    return found


def _sealed(shard: Shard, row: StoredRow, refusal: ServiceError) -> ServiceError:
    """Return the error of a record whose key is lacking, which says how to read on."""
    number = shard.sequence_number(row.offset, row.time_ms)
    return ServiceError(
        refusal.code,
        f"Record {number} of {shard.id} cannot be decrypted: {refusal.message} To read on without "
        "it, begin AFTER_SEQUENCE_NUMBER with its number.",
        refusal.status,
    )


def _count(service: KinesisService, stream: StreamState, read: ShardRead) -> None:
    """Count a read for enhanced monitoring, as the stream's settings are by now."""
    enabled = service.store.streams.get(stream.name, stream).metrics
    if enabled:
        size = sum(len(each.value) + len(each.key or b"") for each in read.rows)
        outgoing = {
            "OutgoingBytes": float(size),
            "OutgoingRecords": float(len(read.rows)),
            "IteratorAgeMilliseconds": float(read.behind_ms),
        }
        service.metrics.count(enabled, stream.name, read.shard.id, outgoing)


def record_fields(shard: Shard, row: StoredRow) -> dict[str, Any]:
    """Return a record as GetRecords shows it. A plain record may have a key of any bytes, or none.

    A client could not send a key back that is no text, so it gets replacement characters.
    """
    fields: dict[str, Any] = {
        "SequenceNumber": shard.sequence_number(row.offset, row.time_ms),
        "ApproximateArrivalTimestamp": Timestamp(max(0, row.time_ms)),
        "Data": row.value,
        "EncryptionType": "KMS" if row.is_encrypted else "NONE",
    }
    if row.key is not None:
        fields["PartitionKey"] = row.key.decode("utf-8", "replace")
    return fields


def child_fields(
    service: KinesisService, stream: StreamState, shard: Shard
) -> list[dict[str, Any]]:
    """Return the children of a shard, which a reader goes on with."""
    known = service.store.streams.get(stream.name, stream)
    return [
        {
            "ShardId": each.id,
            "ParentShards": [f"shardId-{number:012d}" for number in each.parents],
            "HashKeyRange": {
                "StartingHashKey": str(each.keys.start),
                "EndingHashKey": str(each.keys.end),
            },
        }
        for each in known.children(shard.number)
    ]


def _iterator(service: KinesisService, stream: StreamState, shard: Shard, offset: int) -> str:
    position = ShardIterator(stream.name, stream.created_ms, shard.number, offset)
    return position.sealed(service.store.seal, service.now_ms())
