"""ListShards, SplitShard, MergeShards, UpdateShardCount."""

from typing import Final

from headrace.client.error import ClientError
from headrace.gateway.kinesis.error import cluster_failure, invalid_argument, validation
from headrace.gateway.kinesis.identity.page_token import read_token, write_token
from headrace.gateway.kinesis.operation.stream import shard_fields
from headrace.gateway.kinesis.service import KinesisService, Request, Response
from headrace.gateway.kinesis.stream.reshard_plan import plan_merge, plan_shard_count, plan_split
from headrace.gateway.kinesis.stream.shard import shard_number
from headrace.gateway.kinesis.stream.shard_filter import filtered_shards
from headrace.gateway.kinesis.stream.stream_state import StreamMode, StreamState, StreamStatus

_PER_PAGE: Final = 1000
_REFRESH_SECONDS: Final = 5.0


def list_shards(service: KinesisService, request: Request) -> Response:
    now_ms = service.now_ms()
    token = request.get("NextToken")
    wish = request.get("ShardFilter")
    after = -1
    if token is not None:
        content = read_token(service.store.seal, "ListShards", token, now_ms)
        # The service refuses any StreamName beside a token; boto3's own paginator sends it.
        if _names_stream(request) and service.stream_name(request) != content["stream"]:
            raise invalid_argument("NextToken does not match the stream of StreamName.")
        stream = service.served_stream({"StreamName": content["stream"]})
        shards = [stream.shard(number) for number in content["shards"]]
        found = [each for each in shards if each is not None]
    else:
        # A consumer drops the positions of shards that it does not find here.
        if not service.store.tail.refresh(_REFRESH_SECONDS):
            raise cluster_failure("The shards cannot be listed", ClientError("no confirmed view"))
        stream = service.served_stream(request)
        _check_creation(service, request, stream)
        start = request.get("ExclusiveStartShardId")
        if start is not None:
            after = _number(start)
        found = [each for each in filtered_shards(stream, wish, now_ms) if each.number > after]
    limit = request.get("MaxResults", _PER_PAGE)
    response: Response = {"Shards": [shard_fields(each) for each in found[:limit]]}
    if len(found) > limit:
        # The token holds what is left of the list: a reshard between two pages must neither repeat
        # a shard nor leave one out.
        left = {"stream": stream.name, "shards": [each.number for each in found[limit:]]}
        response["NextToken"] = write_token(service.store.seal, "ListShards", left, now_ms)
    return response


def _names_stream(request: Request) -> bool:
    return "StreamName" in request or "StreamARN" in request


def _check_creation(service: KinesisService, request: Request, stream: StreamState) -> None:
    created = request.get("StreamCreationTimestamp")
    if created is not None and created.ms // 1000 != stream.created_ms // 1000:
        raise service.no_stream(stream.name)


def _number(shard_id: str) -> int:
    number = shard_number(shard_id)
    if number is None:
        raise invalid_argument(f"ExclusiveStartShardId {shard_id} is no shard id.")
    return number


def _check_provisioned(stream: StreamState, operation: str) -> None:
    if stream.mode is StreamMode.ON_DEMAND:
        raise validation(
            f"{operation} is only supported for streams in PROVISIONED mode: {stream.name} is "
            "ON_DEMAND and scales by itself."
        )


def split_shard(service: KinesisService, request: Request) -> Response:
    key = int(request["NewStartingHashKey"])

    def step(stream: StreamState) -> StreamState:
        _check_provisioned(stream, "SplitShard")
        plan = plan_split(
            stream, service.account.id, request["ShardToSplit"], key, service.now_ms()
        )
        return stream.announced(plan)

    service.change(request, step)
    return {}


def merge_shards(service: KinesisService, request: Request) -> Response:
    def step(stream: StreamState) -> StreamState:
        _check_provisioned(stream, "MergeShards")
        plan = plan_merge(
            stream,
            service.account.id,
            request["ShardToMerge"],
            request["AdjacentShardToMerge"],
            service.now_ms(),
        )
        return stream.announced(plan)

    service.change(request, step)
    return {}


def update_shard_count(service: KinesisService, request: Request) -> Response:
    target = request["TargetShardCount"]
    current = 0

    def step(stream: StreamState) -> StreamState:
        nonlocal current
        _check_provisioned(stream, "UpdateShardCount")
        current = len(stream.open_shards)
        plan = plan_shard_count(stream, service.account.id, target, service.now_ms())
        if plan is None:
            return stream
        return service.used(stream, "UpdateShardCount").announced(plan)

    stream = service.change(request, step)
    assert stream.status is not StreamStatus.CREATING
    return {
        "StreamName": stream.name,
        "StreamARN": service.account.stream_arn(stream.name),
        "CurrentShardCount": current,
        "TargetShardCount": target,
    }
