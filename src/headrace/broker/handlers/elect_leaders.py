"""ElectLeaders (43), versions 0 to 2: make the preferred replicas lead (KIP-183, KIP-460).

With one broker the only replica leads already, which is what the answer says.
"""

from typing import Any

from kio.schema.elect_leaders.v2.request import ElectLeadersRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.call import Call
from headrace.broker.node import Broker
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.ELECT_LEADERS


def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(ElectLeadersRequest)
    denied = not broker.guard.may_on_cluster(call, Operation.ALTER)
    # Asked about all partitions, Kafka answers only for those where something happened.
    return {
        # Version 0 has no code for the whole, so that each partition carries it too.
        "error_code": ErrorCode.cluster_authorization_failed if denied else ErrorCode.none,
        "replica_election_results": [
            {
                "topic": topic.topic,
                "partition_result": [
                    _denied(one) if denied else _elect(broker, topic.topic, one)
                    for one in topic.partitions
                ],
            }
            for topic in request.topic_partitions or ()
        ],
    }


def _denied(index: int) -> dict[str, Any]:
    return {"partition_id": index, "error_code": ErrorCode.cluster_authorization_failed}


def _elect(broker: Broker, topic: str, index: int) -> dict[str, Any]:
    known = broker.topics.by_name(topic)
    if known is None or not 0 <= index < len(known.partitions):
        code = ErrorCode.unknown_topic_or_partition
        message = "there is no such partition"
    elif known.partitions[index] is None:
        code = ErrorCode.eligible_leaders_not_available
        message = "the log directory of the only replica is offline"
    else:
        code = ErrorCode.election_not_needed
        message = "the preferred replica leads already"
    return {"partition_id": index, "error_code": code, "error_message": message}
