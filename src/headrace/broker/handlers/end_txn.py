"""EndTxn (26), versions 0 to 5: commit or abort.

From version 5 on the answer carries the producer's epoch for its next transaction (KIP-890). The
answer is never UNKNOWN_SERVER_ERROR: whatever went wrong here, the client has to retry.
"""

from typing import Any

from kio.schema.end_txn.v5.request import EndTxnRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import transaction_code
from headrace.model.ids import ProducerEpoch, ProducerId
from headrace.transactions.error import for_version
from headrace.transactions.message import EndTransaction
from headrace.transactions.metadata import CLASSIC_VERSION, EPOCH_BUMP_VERSION
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.END_TXN

_FIRST_EPOCH_BUMP = 5


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(EndTxnRequest)
    if broker.guard.denies_transactional_id(call, Operation.WRITE, request.transactional_id):
        return {"error_code": ErrorCode.transactional_id_authorization_failed}
    bumps = call.version >= _FIRST_EPOCH_BUMP
    if not bumps and call.connection.is_hung_up:
        # The client has asked again since, over another connection. Its next transaction has the
        # same epoch: this request, out of a buffer, would end that one.
        return {"error_code": ErrorCode.coordinator_not_available}
    reply = await broker.transactions.end_transaction(
        EndTransaction(
            transactional_id=request.transactional_id,
            producer_id=ProducerId(request.producer_id),
            producer_epoch=ProducerEpoch(request.producer_epoch),
            commit=request.committed,
            client_version=EPOCH_BUMP_VERSION if bumps else CLASSIC_VERSION,
        )
    )
    return {
        "error_code": transaction_code(for_version(reply.error, "EndTxn", call.version)),
        "producer_id": reply.producer_id,
        "producer_epoch": reply.producer_epoch,
    }
