"""WriteTxnMarkers (27), versions 1 and 2: end transactions in partitions this broker leads.

Coordinators of other brokers send it; so does `kafka-transactions abort`, for a transaction that
hangs because its coordinator has lost it.
"""

from typing import Any

from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WriteTxnMarkersRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.coordinator.marker_writer import Marker
from headrace.broker.error_mapping import code_of
from headrace.model.error import HeadraceError
from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.WRITE_TXN_MARKERS


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
    return {"markers": [await _end(broker, wanted, allowed) for wanted in request.markers]}


async def _end(broker: Broker, wanted: WritableTxnMarker, allowed: bool) -> dict[str, Any]:
    marker = Marker(
        producer_id=ProducerId(wanted.producer_id),
        producer_epoch=ProducerEpoch(wanted.producer_epoch),
        commit=wanted.transaction_result,
        coordinator_epoch=wanted.coordinator_epoch,
        transaction_version=wanted.transaction_version,
    )
    return {
        "producer_id": wanted.producer_id,
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": index,
                        "error_code": await _write(
                            broker, marker, TopicPartition(topic.name, index)
                        )
                        if allowed
                        else ErrorCode.cluster_authorization_failed,
                    }
                    for index in topic.partition_indexes
                ],
            }
            for topic in wanted.topics
        ],
    }


async def _write(broker: Broker, marker: Marker, name: TopicPartition) -> ErrorCode:
    try:
        written = broker.transactions.markers.write(marker, name)
        if written is None:
            return ErrorCode.unknown_topic_or_partition
        if written.partition.waits_before_answer:
            await broker.when_safe(written.partition, written.end)
    except HeadraceError as error:
        return code_of(error)
    return ErrorCode.none
