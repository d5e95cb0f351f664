"""DescribeClientQuotas (48), versions 0 and 1 (KIP-546)."""

from collections import Counter
from typing import Any

from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.cluster.quota import ANY, QuotaFilter
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.DESCRIBE_CLIENT_QUOTAS

_EXACT, _DEFAULT, _ANY_NAME = 0, 1, 2
_TYPES = ("user", "client-id", "ip")


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(DescribeClientQuotasRequest)
    if not broker.guard.may_on_cluster(call, Operation.DESCRIBE_CONFIGS):
        return _failed(
            ErrorCode.cluster_authorization_failed, "not allowed to describe the cluster's configs"
        )
    problem = _problem(request.components)
    if problem is not None:
        return _failed(ErrorCode.invalid_request, problem)
    wanted = QuotaFilter(
        {each.entity_type: _name(each) for each in request.components}, request.strict
    )
    found = await broker.controller.read(
        lambda state: [
            quota for quota in list(state.quotas.values()) if wanted.accepts(quota.entity)
        ]
    )
    return {
        "entries": [
            {
                "entity": [
                    {"entity_type": type_, "entity_name": name} for type_, name in quota.entity
                ],
                "values": [{"key": key, "value": value} for key, value in quota.values.items()],
            }
            for quota in found
        ]
    }


def _problem(components: tuple[ComponentData, ...]) -> str | None:
    for type_, times in Counter(each.entity_type for each in components).items():
        if type_ not in _TYPES:
            return f"there are no quotas for {type_!r}: write one of {', '.join(_TYPES)}"
        if times > 1:
            return f"{type_} stands {times} times in this request"
    for each in components:
        if each.match_type not in (_EXACT, _DEFAULT, _ANY_NAME):
            return f"match type {each.match_type} is none: 0 a name, 1 the default, 2 any"
        if each.match_type == _EXACT and not each.match:
            return f"no name is given for {each.entity_type}"
    return None


def _name(component: ComponentData) -> str | None:
    if component.match_type == _EXACT:
        return component.match
    return None if component.match_type == _DEFAULT else ANY


def _failed(code: ErrorCode, message: str) -> dict[str, Any]:
    return {"error_code": code, "error_message": message, "entries": None}
