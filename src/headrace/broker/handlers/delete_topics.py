"""DeleteTopics (20), versions 1 to 6: by name, and from version 6 also by id."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState

from headrace.broker.auth.resource import Operation, ResourceType
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.config.internal_topic import INTERNAL
from headrace.broker.error_mapping import cluster_code
from headrace.cluster.rejection import Rejection
from headrace.model.ids import TopicId
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.DELETE_TOPICS

_FIRST_WITH_IDS = 6


@dataclass(slots=True)
class _Item:
    """One topic of the request: what was asked for, and what came of it."""

    name: str | None
    topic_id: UUID | None
    error_code: int = ErrorCode.none
    error_message: str | None = None

    def answer(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "topic_id": self.topic_id or UUID(int=0),
            "error_code": self.error_code,
            "error_message": self.error_message,
        }


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    items = [_resolve(broker, call, name, topic_id) for name, topic_id in _asked(call)]
    allowed = [item for item in items if not item.error_code]
    if allowed and not broker.settings["delete.topic.enable"]:
        for item in allowed:
            item.error_code = ErrorCode.topic_deletion_disabled
            item.error_message = "delete.topic.enable is false"
        allowed = []
    if allowed:
        names = [item.name for item in allowed if item.name is not None]
        # The topic table may be behind: another topic may have the name of an id by now.
        ids = {
            item.name: TopicId(item.topic_id)
            for item in allowed
            if item.name is not None and item.topic_id is not None
        }
        plan = await broker.controller.administer(
            lambda controller: controller.delete_topics(names, ids=ids)
        )
        for item in allowed:
            outcome = plan.outcomes[item.name or ""]
            if isinstance(outcome, Rejection):
                item.error_code = cluster_code(outcome.error)
                item.error_message = outcome.message
            else:
                item.topic_id = outcome.topic_id
    return {"responses": [item.answer() for item in items]}


def _asked(call: Call) -> list[tuple[str | None, UUID | None]]:
    if call.version < _FIRST_WITH_IDS:
        return [(name, None) for name in call.body.topic_names]
    topics: tuple[DeleteTopicState, ...] = call.read(DeleteTopicsRequest).topics
    return [(topic.name, topic.topic_id) for topic in topics]


def _resolve(broker: Broker, call: Call, name: str | None, topic_id: UUID | None) -> _Item:
    item = _Item(name, topic_id)
    if (name is None) == (topic_id is None):
        item.error_code = ErrorCode.invalid_request
        item.error_message = "a topic to delete has either a name or an id"
        return item
    if topic_id is not None:
        topic = broker.topics.by_id(topic_id)
        if topic is None:
            item.error_code = ErrorCode.unknown_topic_id
            item.error_message = "there is no topic with this id in this cluster"
            return item
        # A client that may not describe the topic does not learn its name either.
        if broker.guard.may(call, Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            item.name = topic.name
    if item.name in INTERNAL:
        # The coordinators hold its logs open, and all groups or transactions would be lost.
        item.error_code = ErrorCode.policy_violation
        item.error_message = f"{item.name} belongs to the coordinators and is not deleted"
        return item
    shown = item.name
    if shown is None or not broker.guard.may(call, Operation.DELETE, ResourceType.TOPIC, shown):
        item.error_code = ErrorCode.topic_authorization_failed
        item.error_message = "not allowed to delete this topic"
    return item
