"""OffsetForLeaderEpoch (23), versions 2 to 4: where an epoch ends (KIP-101, KIP-279, KIP-320)."""

from typing import Any

from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.OFFSET_FOR_LEADER_EPOCH


def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(OffsetForLeaderEpochRequest)
    return {
        "topics": [
            {
                "topic": topic.topic,
                "partitions": [_answer(broker, call, topic.topic, one) for one in topic.partitions],
            }
            for topic in request.topics
        ]
    }


def _answer(
    broker: Broker, call: Call, topic: str, wanted: OffsetForLeaderPartition
) -> dict[str, Any]:
    if broker.guard.denies_topic(call, Operation.DESCRIBE, topic):
        return {
            "partition": wanted.partition,
            "error_code": ErrorCode.topic_authorization_failed,
        }
    partition = broker.topics.find(topic, None, wanted.partition)
    if partition is None:
        return {
            "partition": wanted.partition,
            "error_code": broker.topics.missing_code(topic, None, wanted.partition),
        }
    stale = partition.check_epoch(wanted.current_leader_epoch)
    if stale:
        return {"partition": wanted.partition, "error_code": stale}
    epoch, end_offset = partition.epoch_end_offset(wanted.leader_epoch)
    return {"partition": wanted.partition, "leader_epoch": epoch, "end_offset": end_offset}
