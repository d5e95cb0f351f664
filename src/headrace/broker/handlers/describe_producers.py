"""DescribeProducers (61), version 0: the producers that write to a partition with sequences.

Followers answer too, from their own log: `kafka-transactions find-hanging --broker-id` asks one
broker for every partition that it has a replica of (KIP-664).
"""

from typing import Any

from kio.schema.describe_producers.v0.request import DescribeProducersRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.loop_turn import LoopTurn
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.DESCRIBE_PRODUCERS


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(DescribeProducersRequest)
    # What is listed twice is answered once: a partition may have very many producers.
    wanted: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    topics, turn = [], LoopTurn()
    for name, indexes in wanted.items():
        partitions = []
        for index in indexes:
            partitions.append(_describe(broker, call, name, index))
            await turn.pause_if_over()
        topics.append({"name": name, "partitions": partitions})
    return {"topics": topics}


def _describe(broker: Broker, call: Call, topic: str, index: int) -> dict[str, Any]:
    if broker.guard.denies_topic(call, Operation.READ, topic):
        return {"partition_index": index, "error_code": ErrorCode.topic_authorization_failed}
    replica = broker.topics.find(topic, None, index) or broker.topics.follower(topic, None, index)
    if replica is None:
        return {
            "partition_index": index,
            "error_code": broker.topics.missing_code(topic, None, index),
        }
    return {
        "partition_index": index,
        "active_producers": [
            {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.epoch,
                "last_sequence": producer.last_sequence,
                "last_timestamp": producer.last_timestamp_ms,
                "coordinator_epoch": producer.coordinator_epoch,
                "current_txn_start_offset": producer.transaction_first_offset,
            }
            for producer in tuple(replica.log.producer_entries())
        ],
    }
