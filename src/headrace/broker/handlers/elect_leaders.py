"""ElectLeaders (43), versions 0 to 2: make the preferred replicas lead, or any (KIP-183,
KIP-460)."""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from kio.schema.elect_leaders.v2.request import ElectLeadersRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import cluster_code
from headrace.cluster.rejection import Rejection
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.ELECT_LEADERS

_UNCLEAN = 1


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(ElectLeadersRequest)
    wanted: list[TopicPartition] | None = None
    if request.topic_partitions is not None:
        wanted = [
            TopicPartition(topic.topic, index)
            for topic in request.topic_partitions
            for index in topic.partitions
        ]
    if not broker.guard.may_on_cluster(call, Operation.ALTER):
        # Version 0 has no code for the whole, so that each partition carries it too.
        code = ErrorCode.cluster_authorization_failed
        return _answer(code, [(name, code, None) for name in wanted or ()])
    unclean = getattr(request, "election_type", 0) == _UNCLEAN
    plan = await broker.controller.administer(
        lambda controller: controller.elect_leaders(wanted, unclean=unclean)
    )
    rows: list[tuple[TopicPartition, ErrorCode, str | None]] = []
    for name, outcome in plan.outcomes.items():
        if isinstance(outcome, Rejection):
            rows.append((name, cluster_code(outcome.error), outcome.message))
        else:
            rows.append((name, ErrorCode.none, None))
    return _answer(ErrorCode.none, rows)


def _answer(
    code: ErrorCode, rows: Sequence[tuple[TopicPartition, ErrorCode, str | None]]
) -> dict[str, Any]:
    return {
        "error_code": code,
        "replica_election_results": [
            {
                "topic": topic,
                "partition_result": [
                    {
                        "partition_id": name.partition,
                        "error_code": outcome,
                        "error_message": message,
                    }
                    for name, outcome, message in found
                ],
            }
            for topic, found in groupby(sorted(rows), key=lambda row: row[0].topic)
        ],
    }
