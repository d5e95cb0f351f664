"""CreateAcls (30), versions 1 to 3. To create an entry that exists does no harm."""

from typing import Any

from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest

from headrace.broker.auth.acl_code import read_acl
from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import cluster_code
from headrace.broker.handlers.describe_acls import NO_AUTHORIZER
from headrace.cluster.acl import Acl
from headrace.cluster.entity_size import entity_problem
from headrace.model.error import InvalidArgument
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.CREATE_ACLS


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    creations = call.read(CreateAclsRequest).creations
    if not broker.guard.may_on_cluster(call, Operation.ALTER):
        failed = _failed(ErrorCode.cluster_authorization_failed, "not allowed to alter the cluster")
        return {"results": [failed] * len(creations)}
    if broker.guard.authorizer is None:
        return {"results": [_failed(ErrorCode.security_disabled, NO_AUTHORIZER)] * len(creations)}
    read = [_read(creation) for creation in creations]
    acls = [one for one in read if isinstance(one, Acl)]
    if acls:
        await broker.controller.administer(lambda controller: controller.create_acls(acls))
    return {"results": [{} if isinstance(one, Acl) else one for one in read]}


def _read(creation: AclCreation) -> Acl | dict[str, Any]:
    try:
        acl = read_acl(creation)
    except InvalidArgument as error:
        return _failed(ErrorCode.invalid_request, str(error))
    problem = entity_problem(acl)
    return acl if problem is None else _failed(cluster_code(problem.error), problem.message)


def _failed(code: ErrorCode, message: str) -> dict[str, Any]:
    return {"error_code": code, "error_message": message}
