"""PushTelemetry (72), version 0: nothing is subscribed to, so what comes is dropped."""

from typing import Any

from kio.schema.push_telemetry.v0.request import PushTelemetryRequest

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.handlers.get_telemetry_subscriptions import SUBSCRIPTION_ID
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.PUSH_TELEMETRY


def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(PushTelemetryRequest)
    if request.client_instance_id is None:
        code = ErrorCode.invalid_request
    elif request.subscription_id != SUBSCRIPTION_ID:
        code = ErrorCode.unknown_subscription_id
    elif len(request.metrics) > broker.settings["telemetry.max.bytes"]:
        code = ErrorCode.telemetry_too_large
    else:
        code = ErrorCode.none
    return {"error_code": code}
