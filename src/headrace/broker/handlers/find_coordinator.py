"""FindCoordinator (10), versions 0 to 6: the broker that coordinates a group or a transactional id.

Since version 4 a request may name many (KIP-699). The coordinator is the leader of that partition
of the coordinator's topic which the name hashes to. The request creates the topic, so that the
client's next request finds its shard.
"""

from typing import Any

from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.config.internal_topic import CONSUMER_OFFSETS, TRANSACTION_STATE
from headrace.broker.replica.topic_table import HostedTopic
from headrace.model.coordinator import coordinator_partition
from headrace.model.error import HeadraceError, InvalidArgument
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.FIND_COORDINATOR

_FIRST_BATCHED = 4
_GROUP, _TRANSACTION = 0, 1
_TOPICS = {_GROUP: CONSUMER_OFFSETS, _TRANSACTION: TRANSACTION_STATE}


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(FindCoordinatorRequest)
    topic = await _topic(broker, request.key_type)
    if call.version < _FIRST_BATCHED:
        return _answer(broker, call, request.key_type, call.body.key, topic)
    return {
        "coordinators": [
            {"key": key, **_answer(broker, call, request.key_type, key, topic)}
            for key in request.coordinator_keys
        ]
    }


def _answer(
    broker: Broker, call: Call, key_type: int, key: str, topic: HostedTopic | dict[str, Any]
) -> dict[str, Any]:
    denied = _denied(broker, call, key_type, key)
    if denied is not None:
        return denied
    if isinstance(topic, dict):
        return topic
    try:
        index = coordinator_partition(key, len(topic.partitions))
    except InvalidArgument as error:
        return _nowhere(ErrorCode.invalid_request, str(error))
    node = broker.cluster_view.find_node(call, topic.record.partitions[index].leader)
    if node is None:
        return _nowhere(ErrorCode.coordinator_not_available, "its partition has no leader now")
    return {"node_id": node["node_id"], "host": node["host"], "port": node["port"]}


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


async def _topic(broker: Broker, key_type: int) -> HostedTopic | dict[str, Any]:
    """Return the coordinator's topic, or the error response where there is none."""
    topic = _TOPICS.get(key_type)
    if topic is None:
        return _nowhere(ErrorCode.invalid_request, f"there is no coordinator of type {key_type}")
    try:
        return await broker.controller.internal_topic(topic)
    except HeadraceError as error:
        return _nowhere(ErrorCode.coordinator_not_available, str(error))


def _nowhere(code: ErrorCode, message: str) -> dict[str, Any]:
    return {"error_code": code, "error_message": message, "node_id": -1, "host": "", "port": -1}
