"""EnableEnhancedMonitoring and DisableEnhancedMonitoring."""

from headrace.gateway.kinesis.limit.shard_metrics import METRICS
from headrace.gateway.kinesis.service import KinesisService, Request, Response
from headrace.gateway.kinesis.stream.reshard_plan import check_active
from headrace.gateway.kinesis.stream.stream_state import StreamState


def enable_monitoring(service: KinesisService, request: Request) -> Response:
    return _change(service, request, enable=True)


def disable_monitoring(service: KinesisService, request: Request) -> Response:
    return _change(service, request, enable=False)


def _change(service: KinesisService, request: Request, *, enable: bool) -> Response:
    named = set(request["ShardLevelMetrics"])
    if "ALL" in named:
        named = set(METRICS)
    before: tuple[str, ...] = ()

    def step(stream: StreamState) -> StreamState:
        nonlocal before
        check_active(stream, service.account.id)
        before = stream.metrics
        wished = named.union(before) if enable else set(before) - named
        # In the model's order, so that equal settings are equal.
        return stream.changed(metrics=tuple(each for each in METRICS if each in wished))

    stream = service.change(request, step)
    return {
        "StreamName": stream.name,
        "StreamARN": service.account.stream_arn(stream.name),
        "CurrentShardLevelMetrics": list(before),
        "DesiredShardLevelMetrics": list(stream.metrics),
    }
