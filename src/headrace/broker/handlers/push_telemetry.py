"""PushTelemetry (72), version 0: the metrics that a client was asked for (KIP-714)."""

from typing import Any

from kio.schema.push_telemetry.v0.request import PushTelemetryRequest

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.client_metrics.client_metrics import MAX_SAMPLES
from headrace.broker.client_metrics.otlp import BadTelemetry, Sample, read_samples
from headrace.broker.client_metrics.subscription import Demand
from headrace.broker.handlers.get_telemetry_subscriptions import client_of
from headrace.model.error import BatchTooLarge, CorruptBatch
from headrace.records.compression import Codec, inflate
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.PUSH_TELEMETRY

# A compressed push may inflate to so many times the largest one.
_MAX_RATIO = 10
_CODECS = frozenset(int(codec) for codec in Codec)


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(PushTelemetryRequest)
    instance_id = request.client_instance_id
    if instance_id is None:
        return {"error_code": ErrorCode.invalid_request}
    demand = broker.client_metrics.demand(client_of(call, instance_id))
    code = _problem(broker, call, request, demand)
    if code is not ErrorCode.none or not demand.metrics:
        return {"error_code": code}
    content, codec = bytes(request.metrics), Codec(request.compression_type)
    limit_bytes = _MAX_RATIO * int(broker.settings["telemetry.max.bytes"])
    try:
        async with broker.client_metrics.reading:
            samples = await broker.in_thread(lambda: _read(content, codec, limit_bytes))
    except BatchTooLarge:
        return {"error_code": ErrorCode.telemetry_too_large}
    except (BadTelemetry, CorruptBatch):
        return {"error_code": ErrorCode.invalid_record}
    broker.client_metrics.pushed(
        instance_id, call.client_id or "", demand, samples, terminating=request.terminating
    )
    return {"error_code": ErrorCode.none}


def _problem(
    broker: Broker, call: Call, request: PushTelemetryRequest, demand: Demand
) -> ErrorCode:
    instance_id = request.client_instance_id
    assert instance_id is not None
    if request.subscription_id != demand.subscription_id:
        return ErrorCode.unknown_subscription_id
    if len(request.metrics) > broker.settings["telemetry.max.bytes"]:
        return ErrorCode.telemetry_too_large
    if request.compression_type not in _CODECS:
        return ErrorCode.unsupported_compression_type
    if demand.metrics and broker.client_metrics.too_early(
        instance_id, call.connection, demand, terminating=request.terminating
    ):
        return ErrorCode.throttling_quota_exceeded
    return ErrorCode.none


def _read(content: bytes, codec: Codec, limit_bytes: int) -> list[Sample]:
    """Inflate and read a push, in a thread: a client chose how long that takes."""
    data = memoryview(content)
    if codec is not Codec.NONE and content:
        data = inflate(codec, data, limit_bytes)
    return read_samples(data, MAX_SAMPLES)
