"""DescribeUserScramCredentials (50), version 0 (KIP-554): which users have a credential; the
credential itself is never returned."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from kio.schema.describe_user_scram_credentials.v0.request import (
    DescribeUserScramCredentialsRequest,
)

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.cluster.credential import ScramCredential
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS

MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_CODES = {name: code for code, name in MECHANISMS.items()}


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(DescribeUserScramCredentialsRequest)
    if not broker.guard.may_on_cluster(call, Operation.DESCRIBE):
        return {
            "error_code": ErrorCode.cluster_authorization_failed,
            "error_message": "not allowed to describe the cluster",
        }
    known = await broker.controller.read(lambda state: dict(state.credentials))
    by_user: dict[str, list[ScramCredential]] = {}
    for (user, _), credential in sorted(known.items()):
        by_user.setdefault(user, []).append(credential)
    wanted = (
        Counter(each.name for each in request.users) if request.users else Counter(by_user.keys())
    )
    return {"results": [_describe(user, times, by_user) for user, times in wanted.items()]}


def _describe(
    user: str, times: int, by_user: Mapping[str, list[ScramCredential]]
) -> dict[str, Any]:
    if times > 1:
        code, message = ErrorCode.duplicate_resource, f"{user!r} is listed twice in this request"
        return {"user": user, "error_code": code, "error_message": message}
    credentials = by_user.get(user)
    if credentials is None:
        code, message = ErrorCode.resource_not_found, f"{user!r} has no SCRAM credential"
        return {"user": user, "error_code": code, "error_message": message}
    return {
        "user": user,
        "credential_infos": [
            {"mechanism": _CODES[each.mechanism], "iterations": each.iterations}
            for each in credentials
        ],
    }
