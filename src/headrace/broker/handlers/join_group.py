"""JoinGroup (11), versions 0 to 9: take part in the next generation of a classic group.

The reply comes when the join phase ends, which may be minutes later.
"""

from typing import Any

from kio.schema.join_group.v9.request import JoinGroupRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call, milliseconds
from headrace.broker.error_mapping import group_code
from headrace.groups.classic.message import JoinRequest
from headrace.groups.record import MemberProtocol
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.JOIN_GROUP

_FIRST_REBALANCE_TIMEOUT = 1
_FIRST_MEMBER_ID_REQUIRED = 4  # KIP-394
_FIRST_SKIP_ASSIGNMENT = 9  # KIP-814


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = _request(broker, call)
    if broker.guard.denies_group(call, Operation.READ, request.group_id):
        return {"error_code": ErrorCode.group_authorization_failed, "member_id": request.member_id}
    reply = await broker.groups.handle(request)
    return {
        "error_code": group_code(reply.error),
        "generation_id": reply.generation,
        "protocol_type": reply.protocol_type,
        "protocol_name": reply.protocol,
        "leader": reply.leader,
        "skip_assignment": reply.skip_assignment,
        "member_id": reply.member_id,
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "metadata": member.metadata,
            }
            for member in reply.members
        ],
    }


def _request(broker: Broker, call: Call) -> JoinRequest:
    body = call.read(JoinGroupRequest)
    session_timeout_ms = milliseconds(body.session_timeout)
    rebalance_timeout_ms = session_timeout_ms
    if call.version >= _FIRST_REBALANCE_TIMEOUT:
        rebalance_timeout_ms = milliseconds(body.rebalance_timeout)
    return JoinRequest(
        group_id=body.group_id,
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        client_id=call.client_id or "",
        client_host=call.client_host,
        protocol_type=body.protocol_type,
        protocols=tuple(
            MemberProtocol(protocol.name, bytes(protocol.metadata)) for protocol in body.protocols
        ),
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        require_member_id=call.version >= _FIRST_MEMBER_ID_REQUIRED,
        can_skip_assignment=call.version >= _FIRST_SKIP_ASSIGNMENT,
        rights=broker.guard.topic_rights(call),
    )
