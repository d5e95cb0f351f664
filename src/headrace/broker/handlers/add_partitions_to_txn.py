"""AddPartitionsToTxn (24), versions 0 to 5: partitions join a transaction before their records do.

Up to version 3 a producer names one transaction. From version 4 on (KIP-890) brokers name many, and
may only ask whether the partitions are in it (`verify_only`). The rights of the producer were
checked by the broker that it wrote to, so that a broker needs CLUSTER_ACTION and nothing else.

A mirror topic joins no transaction. Its source's producers may have the same ids, and an end would
wait for the source's transaction.
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from kio.schema.add_partitions_to_txn.v5.request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTransaction,
)

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import code_of, transaction_code
from headrace.model.error import ReadOnlyTopic
from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition
from headrace.transactions.error import TransactionError, for_version
from headrace.transactions.message import AddPartitions
from headrace.transactions.metadata import CLASSIC_VERSION, EPOCH_BUMP_VERSION
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.ADD_PARTITIONS_TO_TXN

_FIRST_BATCHED = 4

Codes = Mapping[TopicPartition, ErrorCode]


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    if call.version >= _FIRST_BATCHED and not broker.guard.may_on_cluster(
        call, Operation.CLUSTER_ACTION
    ):
        return {"error_code": ErrorCode.cluster_authorization_failed}
    if call.version < _FIRST_BATCHED:
        body = call.body
        event = AddPartitions(
            transactional_id=body.v3_and_below_transactional_id,
            producer_id=ProducerId(body.v3_and_below_producer_id),
            producer_epoch=ProducerEpoch(body.v3_and_below_producer_epoch),
            partitions=_partitions(body.v3_and_below_topics),
            client_version=CLASSIC_VERSION,
        )
        codes = await _join(broker, call, event, verify_only=False)
        return {"results_by_topic_v3_and_below": _by_topic(codes)}
    request = call.read(AddPartitionsToTxnRequest)
    return {
        "results_by_transaction": [
            {
                "transactional_id": wanted.transactional_id,
                "topic_results": _by_topic(
                    await _join(broker, call, _event(wanted), verify_only=wanted.verify_only)
                ),
            }
            for wanted in request.transactions
        ]
    }


def _event(wanted: AddPartitionsToTxnTransaction) -> AddPartitions:
    return AddPartitions(
        transactional_id=wanted.transactional_id,
        producer_id=ProducerId(wanted.producer_id),
        producer_epoch=ProducerEpoch(wanted.producer_epoch),
        partitions=_partitions(wanted.topics),
        client_version=EPOCH_BUMP_VERSION,
    )


def _partitions(topics: Iterable[Any]) -> frozenset[TopicPartition]:
    return frozenset(
        TopicPartition(topic.name, index) for topic in topics for index in topic.partitions
    )


async def _join(broker: Broker, call: Call, event: AddPartitions, *, verify_only: bool) -> Codes:
    """Join all partitions or none: a partition that cannot be joined keeps the others out."""
    from_client = call.version < _FIRST_BATCHED
    if from_client and broker.guard.denies_transactional_id(
        call, Operation.WRITE, event.transactional_id
    ):
        code = ErrorCode.transactional_id_authorization_failed
        return dict.fromkeys(event.partitions, code)
    refused = {
        name: code
        for name in event.partitions
        if (code := _refusal(broker, call, name, from_client=from_client, joins=not verify_only))
    }
    if refused:
        not_tried = ErrorCode.operation_not_attempted
        return {name: refused.get(name, not_tried) for name in event.partitions}
    if verify_only:
        verified = broker.transactions.verify(event)
        return {
            name: _code(call, verified.partitions.get(name, verified.error))
            for name in event.partitions
        }
    reply = await broker.transactions.add_partitions(event)
    return dict.fromkeys(event.partitions, _code(call, reply.error))


def _refusal(
    broker: Broker, call: Call, name: TopicPartition, *, from_client: bool, joins: bool
) -> ErrorCode:
    if from_client and broker.guard.denies_topic(call, Operation.WRITE, name.topic):
        return ErrorCode.topic_authorization_failed
    if not broker.topics.exists(name.topic, name.partition):
        return ErrorCode.unknown_topic_or_partition
    topic = broker.topics.by_name(name.topic)
    if joins and topic is not None and topic.is_mirror:
        return code_of(ReadOnlyTopic())
    return ErrorCode.none


def _code(call: Call, error: TransactionError) -> ErrorCode:
    return transaction_code(for_version(error, "AddPartitionsToTxn", call.version))


def _by_topic(codes: Codes) -> list[dict[str, Any]]:
    return [
        {
            "name": topic,
            "results_by_partition": [
                {"partition_index": name.partition, "partition_error_code": codes[name]}
                for name in names
            ],
        }
        for topic, names in groupby(sorted(codes), key=lambda name: name.topic)
    ]
