"""GetTelemetrySubscriptions (71), version 0: which of its metrics a client should push (KIP-714).

A client without an id gets one. Where no subscription matches it, it asks again in five minutes.
"""

from typing import Any
from uuid import UUID, uuid4

from kio.schema.get_telemetry_subscriptions.v0.request import GetTelemetrySubscriptionsRequest

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.wire.api import ApiKey

API = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS

_ZSTD, _LZ4, _GZIP, _SNAPPY = 4, 3, 1, 2


def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(GetTelemetrySubscriptionsRequest)
    instance_id = request.client_instance_id or uuid4()
    demand = broker.client_metrics.demand(client_of(call, instance_id))
    return {
        "client_instance_id": instance_id,
        "subscription_id": demand.subscription_id,
        "accepted_compression_types": [_ZSTD, _LZ4, _GZIP, _SNAPPY],
        "push_interval": demand.interval_ms,
        "telemetry_max_bytes": broker.settings["telemetry.max.bytes"],
        # Counters as they stand, as Prometheus wants them.
        "delta_temporality": False,
        "requested_metrics": list(demand.metrics),
    }


def client_of(call: Call, instance_id: UUID) -> dict[str, str]:
    """Return what subscriptions match a client by."""
    name, version = call.connection.software
    try:
        port = call.connection.peer_port
    except OSError:
        port = 0
    return {
        "client_id": call.client_id or "",
        "client_instance_id": str(instance_id),
        "client_software_name": name,
        "client_software_version": version,
        "client_source_address": call.connection.peer_host,
        "client_source_port": str(port),
    }
