"""ApiVersions (18), versions 0 to 4: the APIs that are served, and the features of the cluster."""

from typing import Any

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.handlers.registry import SERVED
from headrace.cluster.feature import DEFAULT_FEATURES
from headrace.wire.api import APIS, ApiKey

API = ApiKey.API_VERSIONS

# What this broker supports; the cluster's state has the levels in force (UpdateFeatures).
# group.version 1 turns KIP-848 groups on, transaction.version 2 KIP-890 transactions in clients.
FEATURES = {feature.name: feature.level for feature in DEFAULT_FEATURES}

_OF_CONSUMER_GROUPS = frozenset({ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE})

_FIRST_CLIENT_NAMES = 3


def handle(broker: Broker, call: Call) -> dict[str, Any]:
    if call.version >= _FIRST_CLIENT_NAMES:
        # A body that cannot be read must end the connection.
        body = call.body
        call.connection.software = (body.client_software_name, body.client_software_version)
    return answer(broker)


def answer(broker: Broker) -> dict[str, Any]:
    served = SERVED if broker.features.consumer_groups else SERVED - _OF_CONSUMER_GROUPS
    return {
        "api_keys": [
            {
                "api_key": int(api.key),
                "min_version": api.advertised_lowest,
                "max_version": api.highest,
            }
            for api in APIS.values()
            if api.key in served
        ],
        "supported_features": [
            {"name": name, "min_version": 0, "max_version": level}
            for name, level in FEATURES.items()
        ],
        "finalized_features_epoch": broker.features.epoch,
        "finalized_features": [
            {"name": name, "max_version_level": level, "min_version_level": level}
            for name, level in broker.features.levels.items()
        ],
    }
