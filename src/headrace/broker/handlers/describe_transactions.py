"""DescribeTransactions (65), version 0: the state of transactional ids at their coordinator."""

from itertools import groupby
from typing import Any

from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import transaction_code
from headrace.transactions.error import TransactionError
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.DESCRIBE_TRANSACTIONS


def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(DescribeTransactionsRequest)
    return {
        "transaction_states": [
            _describe(broker, call, transactional_id)
            for transactional_id in dict.fromkeys(request.transactional_ids)
        ]
    }


def _describe(broker: Broker, call: Call, transactional_id: str) -> dict[str, Any]:
    if broker.guard.denies_transactional_id(call, Operation.DESCRIBE, transactional_id):
        return {
            "transactional_id": transactional_id,
            "error_code": ErrorCode.transactional_id_authorization_failed,
        }
    found = broker.transactions.describe(transactional_id)
    if isinstance(found, TransactionError):
        return {"transactional_id": transactional_id, "error_code": transaction_code(found)}
    return {
        "transactional_id": transactional_id,
        "transaction_state": found.state,
        "transaction_timeout": found.timeout_ms,
        "transaction_start_time": found.start_ms,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "topics": [
            {"topic": topic, "partitions": [name.partition for name in names]}
            for topic, names in groupby(sorted(found.partitions), key=lambda name: name.topic)
            if not broker.guard.denies_topic(call, Operation.DESCRIBE, topic)
        ],
    }
