"""UpdateFeatures (57), versions 0 to 2: which features clients and brokers agree on (KIP-584).

All or nothing: one feature that cannot have its level leaves the others as they were.

A request for a whole release of Apache Kafka (`kafka-features --release-version`) names every
feature of that release, metadata.version first. Those that have no counterpart here are left out
of it; one that is asked for by itself is refused with the reason.
"""

from collections.abc import Mapping
from typing import Any

import structlog
from kio.schema.update_features.v2.request import FeatureUpdateKey, UpdateFeaturesRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.handlers.api_versions import FEATURES
from headrace.cluster.controller import Controller
from headrace.cluster.feature import Feature
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.UPDATE_FEATURES

log = structlog.get_logger(__name__)

_METADATA_VERSION = "metadata.version"
_NOT_SERVED: Mapping[str, str] = {
    _METADATA_VERSION: "brokers of any version read the same cluster's state",
    "eligible.leader.replicas.version": "only replicas in sync are elected",
    "kraft.version": "the controller is elected through ZooKeeper",
    "share.version": "share groups are not served",
    "streams.version": "streams groups are not served",
}
"""Features of Apache Kafka that this broker does not have, and why."""

_UPGRADE, _SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE = 1, 2, 3
_FIRST_WITH_UPGRADE_TYPE = 1


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(UpdateFeaturesRequest)
    if not broker.guard.may_on_cluster(call, Operation.ALTER):
        return {"error_code": ErrorCode.cluster_authorization_failed}
    wanted = [
        (update.feature, update.max_version_level, downgrade)
        for update, downgrade in zip(request.feature_updates, _downgrades(call), strict=True)
    ]
    if any(name == _METADATA_VERSION for name, _, _ in wanted):
        for name, level, _ in wanted:
            if name in _NOT_SERVED:
                log.warning("feature_ignored", feature=name, level=level, reason=_NOT_SERVED[name])
        wanted = [each for each in wanted if each[0] not in _NOT_SERVED]

    def update(controller: Controller) -> tuple[str, str] | None:
        known = {name: feature.level for name, feature in controller.state.features.items()}
        for name, level, downgrade in wanted:
            problem = _problem(known, name, level, downgrade=downgrade)
            if problem is not None:
                return name, problem
        if not request.validate_only:
            for name, level, _ in wanted:
                controller.finalize_feature(Feature(name, level))
        return None

    failed = await broker.controller.administer(update)
    if failed is None:
        return {"results": [{"feature": each.feature} for each in request.feature_updates]}
    code, message = ErrorCode.invalid_update_version, f"{failed[0]}: {failed[1]}"
    return {
        "error_code": code,
        "error_message": message,
        "results": [
            {"feature": each.feature, "error_code": code, "error_message": message}
            for each in request.feature_updates
        ],
    }


def _downgrades(call: Call) -> list[bool]:
    """Return, per update, whether it may lower its feature."""
    updates: tuple[Any, ...] = call.body.feature_updates
    if call.version < _FIRST_WITH_UPGRADE_TYPE:
        return [update.allow_downgrade for update in updates]
    newest: tuple[FeatureUpdateKey, ...] = updates
    return [each.upgrade_type in (_SAFE_DOWNGRADE, _UNSAFE_DOWNGRADE) for each in newest]


def _problem(known: Mapping[str, int], name: str, level: int, *, downgrade: bool) -> str | None:
    if name in _NOT_SERVED:
        return f"this broker does not have it: {_NOT_SERVED[name]}"
    highest = FEATURES.get(name)
    if highest is None:
        return f"there is no such feature; there are {', '.join(FEATURES)}"
    if not 0 <= level <= highest:
        return f"level {level} is not served: 0 to {highest} are"
    if level < known.get(name, 0) and not downgrade:
        return f"level {level} is below the present one, and no downgrade was asked for"
    return None
