"""DescribeAcls (29), versions 1 to 3."""

from typing import Any

from kio.schema.describe_acls.v3.request import DescribeAclsRequest

from headrace.broker.auth.acl_code import entry_fields, read_filter, resource_fields
from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.cluster.acl import Acl
from headrace.model.error import InvalidArgument
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.DESCRIBE_ACLS

NO_AUTHORIZER = "no authorizer is set: start the broker with authorizer.class.name"


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(DescribeAclsRequest)
    if not broker.guard.may_on_cluster(call, Operation.DESCRIBE):
        return _failed(
            ErrorCode.cluster_authorization_failed, "not allowed to describe the cluster"
        )
    if broker.guard.authorizer is None:
        return _failed(ErrorCode.security_disabled, NO_AUTHORIZER)
    try:
        wanted = read_filter(request)
    except InvalidArgument as error:
        return _failed(ErrorCode.invalid_request, str(error))
    found = await broker.controller.read(
        lambda state: sorted(acl for acl in list(state.acls) if wanted.accepts(acl))
    )
    by_resource: dict[tuple[str, str, str], list[Acl]] = {}
    for acl in found:
        resource = (acl.resource_type, acl.resource_name, acl.pattern_type)
        by_resource.setdefault(resource, []).append(acl)
    return {
        "resources": [
            {**resource_fields(acls[0]), "acls": [entry_fields(acl) for acl in acls]}
            for acls in by_resource.values()
        ]
    }


def _failed(code: ErrorCode, message: str) -> dict[str, Any]:
    return {"error_code": code, "error_message": message}
