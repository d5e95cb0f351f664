"""FindCoordinator (10), versions 0 to 6: who looks after a group or a transactional id.

Since version 4 a request may name many (KIP-699). A broker alone looks after all of them; asking
makes the coordinator's topic, so that a client's next request finds its shard.
"""

from typing import Any

from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.call import Call
from headrace.broker.handlers.metadata import describe_node
from headrace.broker.node import Broker
from headrace.broker.topics import CONSUMER_OFFSETS, TRANSACTION_STATE
from headrace.model.error import HeadraceError
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.FIND_COORDINATOR

_FIRST_BATCHED = 4
_GROUP, _TRANSACTION = 0, 1
_TOPICS = {_GROUP: CONSUMER_OFFSETS, _TRANSACTION: TRANSACTION_STATE}


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(FindCoordinatorRequest)
    found = await _find(broker, call, request.key_type)
    if call.version < _FIRST_BATCHED:
        return _denied(broker, call, request.key_type, call.body.key) or found
    return {
        "coordinators": [
            {"key": key, **(_denied(broker, call, request.key_type, key) or found)}
            for key in request.coordinator_keys
        ]
    }


def _denied(broker: Broker, call: Call, key_type: int, key: str) -> dict[str, Any] | None:
    if key_type == _GROUP and broker.guard.denies_group(call, Operation.DESCRIBE, key):
        return _nowhere(ErrorCode.group_authorization_failed, "not allowed to describe this group")
    if key_type == _TRANSACTION and broker.guard.denies_transactional_id(
        call, Operation.DESCRIBE, key
    ):
        return _nowhere(
            ErrorCode.transactional_id_authorization_failed,
            "not allowed to describe this transactional id",
        )
    return None


async def _find(broker: Broker, call: Call, key_type: int) -> dict[str, Any]:
    topic = _TOPICS.get(key_type)
    if topic is None:
        return _nowhere(ErrorCode.invalid_request, f"there is no coordinator of type {key_type}")
    try:
        await broker.internal_topic(topic)
    except HeadraceError as error:
        return _nowhere(ErrorCode.coordinator_not_available, str(error))
    node = describe_node(broker, call)
    return {"node_id": node["node_id"], "host": node["host"], "port": node["port"]}


def _nowhere(code: ErrorCode, message: str) -> dict[str, Any]:
    return {"error_code": code, "error_message": message, "node_id": -1, "host": "", "port": -1}
