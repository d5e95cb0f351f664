"""GetTelemetrySubscriptions (71), version 0: which of its metrics a client should send (KIP-714).

No metrics are requested. A client without an id gets one, and asks again after five minutes.
"""

from typing import Any
from uuid import uuid4

from kio.schema.get_telemetry_subscriptions.v0.request import GetTelemetrySubscriptionsRequest

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.wire.api import ApiKey

API = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS

SUBSCRIPTION_ID = 0
_INTERVAL_MS = 5 * 60 * 1000
_ZSTD, _LZ4, _GZIP, _SNAPPY = 4, 3, 1, 2


def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(GetTelemetrySubscriptionsRequest)
    return {
        "client_instance_id": request.client_instance_id or uuid4(),
        "subscription_id": SUBSCRIPTION_ID,
        "accepted_compression_types": [_ZSTD, _LZ4, _GZIP, _SNAPPY],
        "push_interval": _INTERVAL_MS,
        "telemetry_max_bytes": broker.settings["telemetry.max.bytes"],
        "delta_temporality": True,
        "requested_metrics": [],
    }
