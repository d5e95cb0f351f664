"""WriteTxnMarkers (27), versions 1 and 2: end transactions in partitions this broker leads.

Coordinators of other brokers send it; so does `kafka-transactions abort`, for a transaction that
hangs because its coordinator has lost it.
"""

from typing import Any

from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WriteTxnMarkersRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.coordinator.marker_writer import Marker, WrittenMarker
from headrace.broker.error_mapping import code_of
from headrace.model.error import HeadraceError
from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.WRITE_TXN_MARKERS

# What became of a marker in each partition: it is in the log, or why not.
Outcomes = dict[TopicPartition, WrittenMarker | ErrorCode]


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(WriteTxnMarkersRequest)
    if call.connection.is_hung_up:
        # A coordinator that hears nothing closes the connection, and sends its markers again over
        # another one. What it sent first may come late, out of a buffer: its transaction has ended
        # since, and the next one of the classic protocol has the same epoch.
        return {"markers": []}
    # Kafka asked for CLUSTER_ACTION alone before KIP-1123; administrators have ALTER.
    allowed = broker.guard.may_on_cluster(call, Operation.ALTER) or broker.guard.may_on_cluster(
        call, Operation.CLUSTER_ACTION
    )
    # All are appended before the first is waited for. While that lasts the sender may give up, and
    # end its transaction otherwise: what is appended later would end the next one.
    appended = [_append_all(broker, wanted, allowed) for wanted in request.markers]
    return {
        "markers": [
            await _answer(broker, wanted, outcomes)
            for wanted, outcomes in zip(request.markers, appended, strict=True)
        ]
    }


def _append_all(broker: Broker, wanted: WritableTxnMarker, allowed: bool) -> Outcomes:
    marker = Marker(
        producer_id=ProducerId(wanted.producer_id),
        producer_epoch=ProducerEpoch(wanted.producer_epoch),
        commit=wanted.transaction_result,
        coordinator_epoch=wanted.coordinator_epoch,
        transaction_version=wanted.transaction_version,
    )
    names = [
        TopicPartition(topic.name, index)
        for topic in wanted.topics
        for index in topic.partition_indexes
    ]
    if not allowed:
        return dict.fromkeys(names, ErrorCode.cluster_authorization_failed)
    return {name: _append(broker, marker, name) for name in names}


def _append(broker: Broker, marker: Marker, name: TopicPartition) -> WrittenMarker | ErrorCode:
    try:
        written = broker.transactions.markers.write(marker, name)
    except HeadraceError as error:
        return code_of(error)
    return ErrorCode.unknown_topic_or_partition if written is None else written


async def _answer(broker: Broker, wanted: WritableTxnMarker, outcomes: Outcomes) -> dict[str, Any]:
    return {
        "producer_id": wanted.producer_id,
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": index,
                        "error_code": await _settled(
                            broker, outcomes[TopicPartition(topic.name, index)]
                        ),
                    }
                    for index in topic.partition_indexes
                ],
            }
            for topic in wanted.topics
        ],
    }


async def _settled(broker: Broker, outcome: WrittenMarker | ErrorCode) -> ErrorCode:
    """Return the answer for a partition when its marker cannot be lost any more."""
    if isinstance(outcome, ErrorCode):
        return outcome
    try:
        if outcome.partition.waits_before_answer:
            await broker.when_safe(outcome.partition, outcome.end)
    except HeadraceError as error:
        return code_of(error)
    return ErrorCode.none
