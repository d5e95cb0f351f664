"""DeleteAcls (31), versions 1 to 3: every entry that a filter accepts."""

from typing import Any

from kio.schema.delete_acls.v3.request import DeleteAclsFilter, DeleteAclsRequest

from headrace.broker.auth.acl_code import entry_fields, read_filter, resource_fields
from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.handlers.describe_acls import NO_AUTHORIZER
from headrace.model.error import InvalidArgument
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.DELETE_ACLS


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    filters = call.read(DeleteAclsRequest).filters
    if not broker.guard.may_on_cluster(call, Operation.ALTER):
        failed = _failed(ErrorCode.cluster_authorization_failed, "not allowed to alter the cluster")
        return {"filter_results": [failed] * len(filters)}
    if broker.guard.authorizer is None:
        failed = _failed(ErrorCode.security_disabled, NO_AUTHORIZER)
        return {"filter_results": [failed] * len(filters)}
    return {"filter_results": [await _delete(broker, each) for each in filters]}


async def _delete(broker: Broker, each: DeleteAclsFilter) -> dict[str, Any]:
    try:
        wanted = read_filter(each)
    except InvalidArgument as error:
        return _failed(ErrorCode.invalid_request, str(error))
    deleted = await broker.controller.administer(lambda controller: controller.delete_acls(wanted))
    return {
        "matching_acls": [{**resource_fields(acl), **entry_fields(acl)} for acl in deleted],
    }


def _failed(code: ErrorCode, message: str) -> dict[str, Any]:
    return {"error_code": code, "error_message": message}
