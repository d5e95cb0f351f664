"""CreateTopics (19), versions 2 to 7."""

from typing import Any

from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.config_resource import MIRROR_DENIED, denies_mirror
from headrace.broker.error_mapping import cluster_code
from headrace.cluster.rejection import Rejection
from headrace.cluster.topic import TopicRecord
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.ids import BrokerId
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.CREATE_TOPICS


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(CreateTopicsRequest)
    may_create_all = broker.guard.may_on_cluster(call, Operation.CREATE)
    denied = {
        topic.name
        for topic in request.topics
        if not may_create_all and broker.guard.denies_topic(call, Operation.CREATE, topic.name)
    }
    mirrors = {
        topic.name
        for topic in request.topics
        if topic.name not in denied
        and denies_mirror(broker, call, [config.name for config in topic.configs])
    }
    plan = await broker.controller.create_topics(
        [_to_create(topic) for topic in request.topics if topic.name not in denied | mirrors],
        validate_only=request.validate_only,
    )
    return {
        "topics": [
            *(_denied(name) for name in denied),
            *(_mirror_denied(name) for name in mirrors),
            *(_answer(broker, call, name, outcome) for name, outcome in plan.outcomes.items()),
        ]
    }


def _denied(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "error_code": ErrorCode.topic_authorization_failed,
        "error_message": "not allowed to create this topic",
    }


def _mirror_denied(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "error_code": ErrorCode.cluster_authorization_failed,
        "error_message": MIRROR_DENIED,
    }


def _to_create(topic: CreatableTopic) -> TopicToCreate:
    return TopicToCreate(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={
            each.partition_index: [BrokerId(broker) for broker in each.broker_ids]
            for each in topic.assignments
        },
        configs={config.name: config.value for config in topic.configs},
    )


def _answer(
    broker: Broker, call: Call, name: str, outcome: TopicRecord | Rejection
) -> dict[str, Any]:
    if isinstance(outcome, Rejection):
        return {
            "name": name,
            "error_code": cluster_code(outcome.error),
            "error_message": outcome.message,
        }
    if broker.guard.denies_topic(call, Operation.DESCRIBE_CONFIGS, name):
        return {
            "name": name,
            "topic_id": outcome.topic_id,
            "topic_config_error_code": ErrorCode.topic_authorization_failed,
            "num_partitions": -1,
            "replication_factor": -1,
            "configs": None,
        }
    return {
        "name": name,
        "topic_id": outcome.topic_id,
        "num_partitions": len(outcome.partitions),
        "replication_factor": outcome.replication_factor,
        "configs": [
            {"name": key, "value": value, "config_source": 1}
            for key, value in outcome.configs.items()
        ],
    }
