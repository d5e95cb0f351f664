"""OffsetFetch (9), versions 1 to 10: how far groups have read.

Up to version 7 a request asks for one group, then for many (KIP-709); version 10 names topics by
id. Version 1 has no field for an error of the whole group, so each partition carries it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import group_code
from headrace.broker.loop_turn import LoopTurn
from headrace.groups.error import Refusal
from headrace.groups.offset.message import FetchedOffset
from headrace.groups.registry import GroupRegistry
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.OFFSET_FETCH

_FIRST_MANY_GROUPS = 8
_FIRST_TOPIC_ID = 10

Answered: TypeAlias = tuple[str, str | None, int]
"""A group, topic and partition that a response has already; without a topic all of the group's.

What is listed twice in a request is answered once: all offsets of a group, or the text that was
committed with one, are a thousand times as long as the question."""


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    require_stable: bool = getattr(call.body, "require_stable", False)
    if call.version < _FIRST_MANY_GROUPS:
        return await _answer(broker, call, call.body, require_stable, set())
    groups, answered, turn = [], set[Answered](), LoopTurn()
    for group in call.body.groups:
        if group.topics is None:
            if (group.group_id, None, -1) in answered:
                continue
            answered.add((group.group_id, None, -1))
        groups.append(await _answer(broker, call, group, require_stable, answered))
        await turn.pause_if_over()
    return {"groups": groups}


async def _answer(
    broker: Broker, call: Call, asked: Any, require_stable: bool, answered: set[Answered]
) -> dict[str, Any]:
    by_id = call.version >= _FIRST_TOPIC_ID
    head = {"group_id": asked.group_id} if call.version >= _FIRST_MANY_GROUPS else {}
    if broker.guard.denies_group(call, Operation.DESCRIBE, asked.group_id):
        code = ErrorCode.group_authorization_failed
        return {**head, "error_code": code, "topics": _refused(asked.topics or (), code)}

    def read(registry: GroupRegistry) -> Mapping[TopicPartition, FetchedOffset]:
        return registry.fetch_offsets(
            asked.group_id,
            None if asked.topics is None else list(_partitions(broker, asked.topics)),
            member_id=getattr(asked, "member_id", None),
            member_epoch=getattr(asked, "member_epoch", -1),
            require_stable=require_stable,
        )

    try:
        offsets = await broker.groups.read_when_safe(asked.group_id, read)
    except Refusal as refusal:
        code = group_code(refusal.error)
        return {**head, "error_code": code, "topics": _refused(asked.topics or (), code)}
    if asked.topics is None:
        visible = {
            where: offset
            for where, offset in offsets.items()
            if not broker.guard.denies_topic(call, Operation.DESCRIBE, where.topic)
        }
        return {**head, "topics": _all_topics(broker, visible, by_id)}
    return {
        **head,
        "topics": [
            _topic(broker, call, asked.group_id, topic, offsets, answered) for topic in asked.topics
        ],
    }


def _name(broker: Broker, topic: Any) -> str | None:
    """Return the name of a topic of the request; None for an id that no topic has."""
    name: str | None = getattr(topic, "name", None)
    if name is not None or topic.topic_id is None:
        return name
    known = broker.topics.by_id(topic.topic_id)
    return None if known is None else known.name


def _partitions(broker: Broker, topics: Iterable[Any]) -> Iterable[TopicPartition]:
    for topic in topics:
        name = _name(broker, topic)
        if name is not None:
            yield from (TopicPartition(name, index) for index in topic.partition_indexes)


def _topic(
    broker: Broker,
    call: Call,
    group_id: str,
    asked: Any,
    offsets: Mapping[TopicPartition, FetchedOffset],
    answered: set[Answered],
) -> dict[str, Any]:
    name = _name(broker, asked)
    if name is None:
        return _refused([asked], ErrorCode.unknown_topic_id)[0]
    if broker.guard.denies_topic(call, Operation.DESCRIBE, name):
        return _refused([asked], ErrorCode.topic_authorization_failed)[0]
    partitions = []
    for index in asked.partition_indexes:
        if (group_id, name, index) not in answered:
            answered.add((group_id, name, index))
            partitions.append(_partition(index, offsets[TopicPartition(name, index)]))
    return _named(asked) | {"partitions": partitions}


def _all_topics(
    broker: Broker, offsets: Mapping[TopicPartition, FetchedOffset], by_id: bool
) -> list[dict[str, Any]]:
    topics: dict[str, dict[str, Any]] = {}
    for where, offset in offsets.items():
        known = broker.topics.by_name(where.topic)
        if by_id and known is None:
            continue
        named = {"topic_id": known.topic_id} if by_id and known else {"name": where.topic}
        topic = topics.setdefault(where.topic, {**named, "partitions": []})
        topic["partitions"].append(_partition(where.partition, offset))
    return list(topics.values())


def _partition(index: int, offset: FetchedOffset) -> dict[str, Any]:
    return {
        "partition_index": index,
        "committed_offset": offset.offset,
        "committed_leader_epoch": offset.leader_epoch,
        "metadata": offset.metadata,
        "error_code": group_code(offset.error),
    }


def _refused(topics: Iterable[Any], code: ErrorCode) -> list[dict[str, Any]]:
    return [
        _named(topic)
        | {
            "partitions": [
                {
                    "partition_index": index,
                    "committed_offset": -1,
                    "committed_leader_epoch": -1,
                    "metadata": "",
                    "error_code": code,
                }
                for index in topic.partition_indexes
            ]
        }
        for topic in topics
    ]


def _named(topic: Any) -> dict[str, Any]:
    """Name a topic of the reply as the request named it: by name or by id."""
    return {"name": topic.name} if hasattr(topic, "name") else {"topic_id": topic.topic_id}
