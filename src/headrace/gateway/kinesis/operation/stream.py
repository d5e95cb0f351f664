"""CreateStream, DeleteStream, DescribeStream, DescribeStreamSummary, ListStreams, and retention."""

from typing import Any, Final

from headrace.gateway.kinesis.error import (
    in_use,
    invalid_argument,
    limit_exceeded,
    validation,
)
from headrace.gateway.kinesis.identity.page_token import read_token, write_token
from headrace.gateway.kinesis.operation.capacity import (
    check_distribution,
    checked_warm_mibps,
    warm_fields,
)
from headrace.gateway.kinesis.operation.channel import MOST_CHANNELS
from headrace.gateway.kinesis.protocol.timestamp import Timestamp
from headrace.gateway.kinesis.service import KinesisService, Request, Response
from headrace.gateway.kinesis.stream.reshard_plan import MOST_SHARDS, check_active
from headrace.gateway.kinesis.stream.shard import Shard, shard_number
from headrace.gateway.kinesis.stream.shard_filter import kept_shards
from headrace.gateway.kinesis.stream.stream_state import (
    DEFAULT_RECORD_KIB,
    DEFAULT_RETENTION_HOURS,
    ON_DEMAND_SHARDS,
    Distribution,
    StreamMode,
    StreamState,
    StreamStatus,
    new_stream,
)

_MOST_CREATING: Final = 5
_MOST_HOURS: Final = 8760
_MOST_TAGS: Final = 50
_SHARDS_PER_PAGE: Final = 100
_STREAMS_PER_PAGE: Final = 100


def create_stream(service: KinesisService, request: Request) -> Response:
    """Announce a stream; its topic is created in the background."""
    name = request["StreamName"]
    mode = StreamMode(request.get("StreamModeDetails", {}).get("StreamMode", "PROVISIONED"))
    count = request.get("ShardCount")
    if mode is StreamMode.PROVISIONED and count is None:
        raise validation("ShardCount must be provided for a stream in PROVISIONED mode.")
    if mode is StreamMode.ON_DEMAND:
        if count is not None:
            raise validation("ShardCount must not be provided for a stream in ON_DEMAND mode.")
        count = ON_DEMAND_SHARDS
    distribution = Distribution(request.get("RecordDistributionStrategy", "USER_PARTITION_KEY"))
    check_distribution(mode, distribution)
    warm_mibps = checked_warm_mibps(service, mode, request.get("WarmThroughputMiBps"))
    assert count is not None
    if count > MOST_SHARDS:
        raise limit_exceeded(f"A stream has at most {MOST_SHARDS} shards.")
    _check_name(name)
    if len(request.get("Tags", {})) > _MOST_TAGS:
        raise invalid_argument(f"A stream has at most {_MOST_TAGS} tags.")
    exists = in_use(f"Stream {name} under account {service.account.id} already exists.")
    creating = [
        each for each in service.store.streams.values() if each.status is StreamStatus.CREATING
    ]
    if len(creating) >= _MOST_CREATING and name not in service.store.streams:
        raise limit_exceeded(
            f"This request would exceed the limit of {_MOST_CREATING} streams in CREATING."
        )
    # A plain topic of this name belongs to Kafka's clients.
    if name not in service.store.streams and service.plain.exists(name):
        raise exists

    def step(current: StreamState | None) -> StreamState:
        if current is not None:
            raise exists
        return new_stream(
            name,
            max(count, warm_mibps),
            service.now_ms(),
            mode=mode,
            distribution=distribution,
            warm_mibps=warm_mibps,
            tags=dict(request.get("Tags", {})),
            max_record_kib=request.get("MaxRecordSizeInKiB", DEFAULT_RECORD_KIB),
        )

    service.keeper.change(name, step)
    return {}


def _check_name(name: str) -> None:
    if name in (".", "..") or name.startswith(("__", "headrace.")):
        raise invalid_argument(f"Stream name {name} is reserved: choose another one.")


def delete_stream(service: KinesisService, request: Request) -> Response:
    """Announce the end of a stream; its topic is deleted in the background."""

    def step(stream: StreamState) -> StreamState:
        if stream.status is StreamStatus.DELETING:
            raise in_use(
                f"Stream {stream.name} under account {service.account.id} is being deleted."
            )
        if stream.consumers and not request.get("EnforceConsumerDeletion"):
            raise in_use(
                f"Stream {stream.name} under account {service.account.id} has registered "
                "consumers: set EnforceConsumerDeletion."
            )
        service.refuse_if_channels(stream, "deleted")
        return stream.changed(status=StreamStatus.DELETING, pending=None, consumers=())

    service.change(request, step)
    return {}


def describe_stream(service: KinesisService, request: Request) -> Response:
    stream = service.stream(request)
    limit = request.get("Limit", _SHARDS_PER_PAGE)
    after = request.get("ExclusiveStartShardId")
    shards = sorted(kept_shards(stream, service.now_ms()), key=lambda each: each.number)
    if stream.status is StreamStatus.CREATING:
        shards = []
    if after is not None:
        number = shard_number(after)
        if number is None:
            raise invalid_argument(f"ExclusiveStartShardId {after} is no shard id.")
        shards = [each for each in shards if each.number > number]
    return {
        "StreamDescription": {
            **_fields(service, stream),
            "Shards": [shard_fields(each) for each in shards[:limit]],
            "HasMoreShards": len(shards) > limit,
        }
    }


def describe_stream_summary(service: KinesisService, request: Request) -> Response:
    stream = service.stream(request)
    summary = {
        **_fields(service, stream),
        "OpenShardCount": len(stream.open_shards),
        "ConsumerCount": len(stream.consumers),
        "MaxRecordSizeInKiB": stream.max_record_kib,
        "ChannelCount": len(service.channels.of(stream.name)),
        "RecordDistributionStrategy": stream.distribution.value,
    }
    if stream.mode is StreamMode.ON_DEMAND:
        summary["WarmThroughput"] = warm_fields(stream)
    return {"StreamDescriptionSummary": summary}


def describe_limits(service: KinesisService, request: Request) -> Response:
    streams = service.store.streams.values()
    on_demand = [each for each in streams if each.mode is StreamMode.ON_DEMAND]
    return {
        "ShardLimit": MOST_SHARDS,
        "OpenShardCount": sum(
            len(each.open_shards) for each in streams if each.mode is StreamMode.PROVISIONED
        ),
        "OnDemandStreamCount": len(on_demand),
        "OnDemandStreamCountLimit": 50,
        "ChannelCount": len(service.channels.channels),
        "ChannelCountLimit": MOST_CHANNELS,
    }


def list_streams(service: KinesisService, request: Request) -> Response:
    after = request.get("ExclusiveStartStreamName", "")
    token = request.get("NextToken")
    if token is not None:
        after = read_token(service.store.seal, "ListStreams", token, service.now_ms())["after"]
    known = {**service.plain.streams(), **service.store.streams}
    names = sorted(name for name in known if name > after)
    limit = request.get("Limit", _STREAMS_PER_PAGE)
    page = names[:limit]
    response: Response = {
        "StreamNames": page,
        "HasMoreStreams": len(names) > limit,
        "StreamSummaries": [_summary(service, known[name]) for name in page],
    }
    if len(names) > limit:
        response["NextToken"] = write_token(
            service.store.seal, "ListStreams", {"after": page[-1]}, service.now_ms()
        )
    return response


def increase_retention(service: KinesisService, request: Request) -> Response:
    hours = request["RetentionPeriodHours"]

    def step(stream: StreamState) -> StreamState:
        _check_hours(service, stream, hours)
        if hours < stream.retention_hours:
            raise invalid_argument(
                f"Requested retention period ({hours} hours) for stream {stream.name} can not be "
                f"shorter than existing retention period ({stream.retention_hours} hours). "
                "Use DecreaseRetentionPeriod API."
            )
        return _with_retention(stream, hours)

    service.change(request, step)
    return {}


def decrease_retention(service: KinesisService, request: Request) -> Response:
    hours = request["RetentionPeriodHours"]

    def step(stream: StreamState) -> StreamState:
        _check_hours(service, stream, hours)
        if hours > stream.retention_hours:
            raise invalid_argument(
                f"Requested retention period ({hours} hours) for stream {stream.name} can not be "
                f"longer than existing retention period ({stream.retention_hours} hours). "
                "Use IncreaseRetentionPeriod API."
            )
        return _with_retention(stream, hours)

    service.change(request, step)
    return {}


def update_max_record_size(service: KinesisService, request: Request) -> Response:
    size = request["MaxRecordSizeInKiB"]

    def step(stream: StreamState) -> StreamState:
        check_active(stream, service.account.id)
        if size == stream.max_record_kib:
            return stream
        return stream.changed(max_record_kib=size, status=StreamStatus.UPDATING)

    service.change(request, step)
    return {}


def _with_retention(stream: StreamState, hours: int) -> StreamState:
    if hours == stream.retention_hours:
        return stream
    return stream.changed(retention_hours=hours, status=StreamStatus.UPDATING)


def _check_hours(service: KinesisService, stream: StreamState, hours: int) -> None:
    check_active(stream, service.account.id)
    if hours < DEFAULT_RETENTION_HOURS:
        raise invalid_argument(
            f"Minimum allowed retention period is {DEFAULT_RETENTION_HOURS} hours. "
            f"Requested retention period ({hours} hours) is too short."
        )
    if hours > _MOST_HOURS:
        raise invalid_argument(
            f"Maximum allowed retention period is {_MOST_HOURS} hours. "
            f"Requested retention period ({hours} hours) is too long."
        )


def shard_fields(shard: Shard) -> dict[str, Any]:
    """Return a shard as DescribeStream and ListShards show it."""
    numbers = {"StartingSequenceNumber": shard.starting_sequence_number}
    if shard.ending_sequence_number is not None:
        numbers["EndingSequenceNumber"] = shard.ending_sequence_number
    fields: dict[str, Any] = {
        "ShardId": shard.id,
        "HashKeyRange": {
            "StartingHashKey": str(shard.keys.start),
            "EndingHashKey": str(shard.keys.end),
        },
        "SequenceNumberRange": numbers,
    }
    parents = zip(("ParentShardId", "AdjacentParentShardId"), shard.parents, strict=False)
    for member, number in parents:
        fields[member] = f"shardId-{number:012d}"
    return fields


def _summary(service: KinesisService, stream: StreamState) -> dict[str, Any]:
    return {
        "StreamName": stream.name,
        "StreamARN": service.account.stream_arn(stream.name),
        "StreamStatus": stream.status.value,
        "StreamModeDetails": {"StreamMode": stream.mode.value},
        "StreamCreationTimestamp": Timestamp(stream.created_ms),
    }


def _fields(service: KinesisService, stream: StreamState) -> dict[str, Any]:
    fields = {
        **_summary(service, stream),
        "RetentionPeriodHours": stream.retention_hours,
        "EnhancedMonitoring": [{"ShardLevelMetrics": list(stream.metrics)}],
        "EncryptionType": "NONE" if stream.data_key is None else "KMS",
    }
    if stream.data_key is not None:
        fields["KeyId"] = stream.data_key.key_id
    return fields
