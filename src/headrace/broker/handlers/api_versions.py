"""ApiVersions (18), versions 0 to 4: the APIs that are served, and the features of the cluster."""

from typing import Any

from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.handlers.registry import SERVED
from headrace.wire.api import APIS, ApiKey

API = ApiKey.API_VERSIONS

# What this broker supports; the cluster's state has the levels in force (UpdateFeatures).
# group.version 1 turns KIP-848 groups on in clients, transaction.version 2 KIP-890 transactions.
FEATURES = {"group.version": 1, "transaction.version": 2}

_FIRST_CLIENT_NAMES = 3


def handle(broker: Broker, call: Call) -> dict[str, Any]:
    if call.version >= _FIRST_CLIENT_NAMES:
        # The client's name is not kept, but a body that cannot be read must end the connection.
        _ = call.body
    return answer(broker)


def answer(broker: Broker) -> dict[str, Any]:
    return {
        "api_keys": [
            {
                "api_key": int(api.key),
                "min_version": api.advertised_lowest,
                "max_version": api.highest,
            }
            for api in APIS.values()
            if api.key in SERVED
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
