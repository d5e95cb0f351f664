"""Metadata (3), versions 0 to 13: the brokers, the topics, and the leaders of their partitions."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import structlog
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic

from headrace.broker.auth.resource import (
    CLUSTER_NAME,
    UNKNOWN_OPERATIONS,
    Operation,
    ResourceType,
)
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.config.internal_topic import INTERNAL
from headrace.broker.error_mapping import cluster_code
from headrace.broker.replica.topic_table import HostedTopic
from headrace.cluster.rejection import ClusterError, Rejection
from headrace.cluster.topic_command import TopicToCreate
from headrace.model.ids import topic_name_problem
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.METADATA

log = structlog.get_logger(__name__)

_ALL_WHEN_EMPTY = 0  # version 0 has no null: an empty list asks for every topic
_NO_ID = UUID(int=0)


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(MetadataRequest)
    wants_all = request.topics is None or (call.version == _ALL_WHEN_EMPTY and not request.topics)
    with_operations = request.include_topic_authorized_operations
    if wants_all and broker.guard.authorizer is None and not with_operations:
        packed: Any = await broker.packed_topics.in_turns(call.version)
    else:
        if wants_all:
            rights = broker.guard.topic_rights(call)
            topics: Iterable[HostedTopic | dict[str, Any]] = (
                topic
                for topic in broker.topics
                if rights is None or rights.may_describe(topic.name)
            )
        else:
            assert request.topics is not None
            uncreated = await _create_missing(broker, call, request)
            # A topic that was just created is not unknown: its logs are being made.
            await broker.controller.served(each.name for each in request.topics if each.name)
            # A topic listed twice is answered once: the answer may be a million times as long.
            wanted_topics = {_asked(each): each for each in request.topics}
            topics = (_answer(broker, call, each, uncreated) for each in wanted_topics.values())
        packed = [_pack(broker, call, topic, with_operations) for topic in topics]
        # Errors first, as mappings: metrics and the log of refusals look for them.
        packed.sort(key=lambda each: isinstance(each, bytes))
    return {
        "brokers": broker.cluster_view.describe_nodes(call),
        "cluster_id": broker.cluster_id,
        "controller_id": broker.membership.controller_id,
        "topics": packed,
        "cluster_authorized_operations": broker.guard.operations(
            call, ResourceType.CLUSTER, CLUSTER_NAME
        )
        if getattr(call.body, "include_cluster_authorized_operations", False)
        else UNKNOWN_OPERATIONS,
    }


def _pack(
    broker: Broker, call: Call, topic: HostedTopic | dict[str, Any], with_operations: bool
) -> bytes | dict[str, Any]:
    """Return a topic, packed if it is one that can be kept, or the error where there is none.

    What the client may do with a topic is its own, so that such a response is not kept.
    """
    if isinstance(topic, HostedTopic):
        if not with_operations:
            return broker.packed_topics.one(topic, call.version)
        operations = broker.guard.operations(call, ResourceType.TOPIC, topic.name)
        topic = broker.packed_topics.describe(topic)
        topic["topic_authorized_operations"] = operations
    return topic


async def _create_missing(broker: Broker, call: Call, request: MetadataRequest) -> set[str]:
    """Create the missing topics, and return the names of those that the client may not create."""
    if not request.allow_auto_topic_creation or not broker.settings["auto.create.topics.enable"]:
        return set()
    missing = [
        topic.name
        for topic in request.topics or ()
        if topic.name
        and broker.topics.by_name(topic.name) is None
        and topic_name_problem(topic.name) is None
        and not broker.guard.denies_topic(call, Operation.DESCRIBE, topic.name)
    ]
    may_create_all = broker.guard.may_on_cluster(call, Operation.CREATE)
    denied: set[str] = {
        name
        for name in missing
        if not may_create_all and broker.guard.denies_topic(call, Operation.CREATE, name)
    }
    wanted = [
        broker.settings.internal_topic(name) if name in INTERNAL else TopicToCreate(name=name)
        for name in dict.fromkeys(missing)
        if name not in denied
    ]
    if not wanted:
        return denied
    plan = await broker.controller.create_topics(wanted)
    for name, outcome in plan.outcomes.items():
        if isinstance(outcome, Rejection) and outcome.error != ClusterError.TOPIC_ALREADY_EXISTS:
            log.warning("topic_not_created", topic=name, reason=outcome.message)
    return denied


def _asked(wanted: MetadataRequestTopic) -> str | UUID | None:
    """Return what names the topic: beside a name the id counts for nothing."""
    return wanted.topic_id if wanted.name is None else wanted.name


def _answer(
    broker: Broker, call: Call, wanted: MetadataRequestTopic, uncreated: set[str]
) -> HostedTopic | dict[str, Any]:
    denied = broker.guard.denies_topic(call, Operation.DESCRIBE, wanted.name, wanted.topic_id)
    if denied or wanted.name in uncreated:
        return {
            "error_code": ErrorCode.topic_authorization_failed,
            "name": wanted.name,
            "topic_id": wanted.topic_id or _NO_ID,
        }
    if wanted.name is None:
        topic = None if wanted.topic_id is None else broker.topics.by_id(wanted.topic_id)
        missing = ErrorCode.unknown_topic_id
    else:
        topic = broker.topics.by_name(wanted.name)
        missing = ErrorCode.unknown_topic_or_partition
        if topic is None and topic_name_problem(wanted.name) is not None:
            missing = cluster_code(ClusterError.INVALID_TOPIC_EXCEPTION)
    if topic is None:
        return {"error_code": missing, "name": wanted.name, "topic_id": wanted.topic_id or _NO_ID}
    return topic
