"""InitProducerId (22), versions 0 to 5: an identity for a producer.

Without a transactional id it is a new producer id, good for idempotence. With one the coordinator
gives the id's next epoch, which fences the producer that had it before.
"""

from typing import Any

from kio.schema.init_producer_id.v5.request import InitProducerIdRequest

from headrace.broker.auth.resource import Operation, ResourceType
from headrace.broker.broker import Broker
from headrace.broker.call import Call, milliseconds
from headrace.broker.error_mapping import transaction_code
from headrace.model.ids import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerEpoch, ProducerId
from headrace.transactions.error import TransactionError, for_version
from headrace.transactions.message import InitProducerId, InitReply
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.INIT_PRODUCER_ID


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(InitProducerIdRequest)
    denied = _denied(broker, call, request.transactional_id)
    if denied:
        return {"error_code": denied, "producer_id": NO_PRODUCER_ID, "producer_epoch": -1}
    if request.transactional_id is None:
        reply = _new_producer(broker, request)
    else:
        reply = await broker.transactions.init_producer_id(
            InitProducerId(
                transactional_id=request.transactional_id,
                timeout_ms=milliseconds(request.transaction_timeout),
                producer_id=ProducerId(request.producer_id),
                producer_epoch=ProducerEpoch(request.producer_epoch),
            )
        )
    error = for_version(reply.error, "InitProducerId", call.version)
    return {
        "error_code": transaction_code(error),
        "producer_id": reply.producer_id,
        "producer_epoch": reply.producer_epoch,
    }


def _denied(broker: Broker, call: Call, named: str | None) -> ErrorCode:
    """Return why a producer is refused. One that may write to any topic may be idempotent
    (KIP-679)."""
    if named is not None:
        if broker.guard.denies_transactional_id(call, Operation.WRITE, named):
            return ErrorCode.transactional_id_authorization_failed
    elif not broker.guard.may_on_cluster(
        call, Operation.IDEMPOTENT_WRITE
    ) and not broker.guard.may_on_any(call, Operation.WRITE, ResourceType.TOPIC):
        return ErrorCode.cluster_authorization_failed
    return ErrorCode.none


def _new_producer(broker: Broker, request: InitProducerIdRequest) -> InitReply:
    """Return a new id, also for a producer that resumes (KIP-360): the old one is not kept."""
    id_given = ProducerId(request.producer_id) != NO_PRODUCER_ID
    epoch_given = ProducerEpoch(request.producer_epoch) != NO_PRODUCER_EPOCH
    if id_given != epoch_given:
        return InitReply(error=TransactionError.INVALID_REQUEST)
    producer_id = broker.producer_ids.next()
    if producer_id is None:
        return InitReply(error=TransactionError.COORDINATOR_LOAD_IN_PROGRESS)
    return InitReply(producer_id=producer_id, producer_epoch=ProducerEpoch(0))
