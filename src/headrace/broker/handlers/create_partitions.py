"""CreatePartitions (37), versions 0 to 3: add partitions to topics."""

from typing import Any

from kio.schema.create_partitions.v3.request import CreatePartitionsRequest, CreatePartitionsTopic

from headrace.broker.auth.resource import Operation, ResourceType
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.config.internal_topic import INTERNAL
from headrace.broker.error_mapping import cluster_code
from headrace.cluster.controller import Controller
from headrace.cluster.rejection import Rejection
from headrace.cluster.topic_command import NewPartitions, TopicPlan
from headrace.model.ids import BrokerId
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.CREATE_PARTITIONS


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(CreatePartitionsRequest)
    allowed = [
        topic
        for topic in request.topics
        if broker.guard.may(call, Operation.ALTER, ResourceType.TOPIC, topic.name)
    ]
    wanted = [_wanted(topic) for topic in allowed if topic.name not in INTERNAL]

    def grow(controller: Controller) -> TopicPlan:
        return controller.create_partitions(wanted, validate_only=request.validate_only)

    plan = await broker.controller.administer(grow)
    await broker.controller.created(plan)
    names = dict.fromkeys(topic.name for topic in request.topics)
    return {"results": [_answer(name, plan) for name in names]}


def _wanted(topic: CreatePartitionsTopic) -> NewPartitions:
    assignments = topic.assignments
    return NewPartitions(
        name=topic.name,
        total=topic.count,
        assignments=None
        if assignments is None
        else [[BrokerId(broker) for broker in each.broker_ids] for each in assignments],
    )


def _answer(name: str, plan: TopicPlan) -> dict[str, Any]:
    outcome = plan.outcomes.get(name)
    if name in INTERNAL:
        # A group or a transactional id is found by the number of partitions: it must stay.
        code: int = ErrorCode.policy_violation
        message: str | None = f"the partitions of {name} are fixed once the topic exists"
    elif outcome is None:
        code = ErrorCode.topic_authorization_failed
        message = "not allowed to alter this topic"
    elif isinstance(outcome, Rejection):
        code, message = cluster_code(outcome.error), outcome.message
    else:
        code, message = ErrorCode.none, None
    return {"name": name, "error_code": code, "error_message": message}
