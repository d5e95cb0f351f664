"""CreateTopics (19), versions 2 to 7."""

from typing import Any

from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest

from headrace.broker.call import Call
from headrace.broker.fault import cluster_code
from headrace.broker.node import Broker
from headrace.cluster.rejection import Rejection
from headrace.cluster.topic import Topic
from headrace.cluster.topic_command import NewTopic
from headrace.model.ids import BrokerId
from headrace.wire.api import ApiKey

API = ApiKey.CREATE_TOPICS


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(CreateTopicsRequest)
    plan = await broker.create_topics(
        [_wanted(topic) for topic in request.topics], validate_only=request.validate_only
    )
    return {"topics": [_answer(name, outcome) for name, outcome in plan.outcomes.items()]}


def _wanted(topic: CreatableTopic) -> NewTopic:
    return NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments={
            each.partition_index: [BrokerId(broker) for broker in each.broker_ids]
            for each in topic.assignments
        },
        configs={config.name: config.value for config in topic.configs},
    )


def _answer(name: str, outcome: Topic | Rejection) -> dict[str, Any]:
    if isinstance(outcome, Rejection):
        return {
            "name": name,
            "error_code": cluster_code(outcome.error),
            "error_message": outcome.message,
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
