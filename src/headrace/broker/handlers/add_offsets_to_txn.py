"""AddOffsetsToTxn (25), versions 0 to 4: a group's offsets will be committed in the transaction."""

from typing import Any

from kio.schema.add_offsets_to_txn.v4.request import AddOffsetsToTxnRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.config.internal_topic import CONSUMER_OFFSETS
from headrace.broker.error_mapping import transaction_code
from headrace.model.coordinator import coordinator_partition
from headrace.model.error import HeadraceError, InvalidArgument
from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition
from headrace.transactions.error import for_version
from headrace.transactions.message import AddPartitions
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.ADD_OFFSETS_TO_TXN


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(AddOffsetsToTxnRequest)
    if broker.guard.denies_transactional_id(call, Operation.WRITE, request.transactional_id):
        return {"error_code": ErrorCode.transactional_id_authorization_failed}
    if broker.guard.denies_group(call, Operation.READ, request.group_id):
        return {"error_code": ErrorCode.group_authorization_failed}
    try:
        partition = await offsets_partition(broker, request.group_id)
    except InvalidArgument:
        return {"error_code": ErrorCode.invalid_request}
    except HeadraceError:
        return {"error_code": ErrorCode.coordinator_not_available}
    reply = await broker.transactions.add_partitions(
        AddPartitions(
            transactional_id=request.transactional_id,
            producer_id=ProducerId(request.producer_id),
            producer_epoch=ProducerEpoch(request.producer_epoch),
            partitions=frozenset((partition,)),
        )
    )
    error = for_version(reply.error, "AddOffsetsToTxn", call.version)
    return {"error_code": transaction_code(error)}


async def offsets_partition(broker: Broker, group_id: str) -> TopicPartition:
    """Return the partition that keeps a group's offsets.

    Raises:
        InvalidArgument: the group's id is longer than any record can hold.
        HeadraceError: there is no such topic now.
    """
    topic = await broker.controller.internal_topic(CONSUMER_OFFSETS)
    return TopicPartition(CONSUMER_OFFSETS, coordinator_partition(group_id, len(topic.partitions)))
