"""Consumer groups: members, what they read, and how far they are behind.

A right to a group is none to the topics that its members read: what is shown of topics is of those
that the caller may describe.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from headrace.client.error import BrokerError, ClientError
from headrace.client.group.group_admin import GroupAdmin, GroupDescription, MemberDescription
from headrace.client.read.offset_lookup import LATEST, list_offsets
from headrace.gateway.rest.access.right import Right
from headrace.gateway.rest.error import RestError
from headrace.gateway.rest.request import Answer, Call
from headrace.gateway.rest.v3.resource import check_cluster, collection, related, resource
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

_WORD: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_NO_MEMBER: Final = MemberDescription("", None, "", "", ())


@dataclass(frozen=True, slots=True)
class _Lag:
    where: TopicPartition
    member: MemberDescription
    committed: int
    end: int

    @property
    def records(self) -> int:
        return max(self.end - self.committed, 0)


def list_groups(call: Call) -> Answer:
    check_cluster(call)
    admin = GroupAdmin(call.pool)
    can = call.request.caller.can
    found = [
        admin.describe(each.group) for each in admin.list_groups() if can(Right.GROUP, each.group)
    ]
    data = [_group(call, each) for each in found if isinstance(each, GroupDescription)]
    return Answer(collection(call, "KafkaConsumerGroupList", ("consumer-groups",), data))


def get_group(call: Call) -> Answer:
    return Answer(_group(call, _find(call)))


def list_consumers(call: Call) -> Answer:
    group = _find(call)
    data = [_consumer(call, group.group, each) for each in group.members]
    path = ("consumer-groups", group.group, "consumers")
    return Answer(collection(call, "KafkaConsumerList", path, data))


def get_consumer(call: Call) -> Answer:
    group = _find(call)
    return Answer(_consumer(call, group.group, _member(call, group)))


def list_assignments(call: Call) -> Answer:
    group = _find(call)
    member = _member(call, group)
    data = [
        _assignment(call, group.group, member, each)
        for each in sorted(member.partitions)
        if call.can_describe(each.topic)
    ]
    path = ("consumer-groups", group.group, "consumers", member.member_id, "assignments")
    return Answer(collection(call, "KafkaConsumerAssignmentList", path, data))


def get_assignment(call: Call) -> Answer:
    group = _find(call)
    member = _member(call, group)
    where = _partition(call)
    if where not in member.partitions:
        raise RestError(404, f"{where} is not assigned to this consumer.")
    return Answer(_assignment(call, group.group, member, where))


def list_lags(call: Call) -> Answer:
    group = _find(call)
    data = [_lag(call, group.group, each) for each in _lags(call, group)]
    path = ("consumer-groups", group.group, "lags")
    return Answer(collection(call, "KafkaConsumerLagList", path, data))


def get_lag(call: Call) -> Answer:
    group = _find(call)
    where = _partition(call)
    for each in _lags(call, group, [where]):
        return Answer(_lag(call, group.group, each))
    raise RestError(404, f"The group has committed no offset of {where}.")


def get_lag_summary(call: Call) -> Answer:
    group = _find(call)
    lags = _lags(call, group)
    if not lags:
        raise RestError(404, "The group has committed no offset.")
    most = max(lags, key=lambda each: each.records)
    name = group.group
    where = most.where
    return Answer(
        resource(
            call,
            "KafkaConsumerGroupLagSummary",
            ("consumer-groups", name, "lag-summary"),
            f"consumer-group={name}/lag-summary",
            consumer_group_id=name,
            max_lag_consumer_id=most.member.member_id,
            max_lag_instance_id=most.member.instance_id,
            max_lag_client_id=most.member.client_id,
            max_lag_topic_name=where.topic,
            max_lag_partition_id=where.partition,
            max_lag=most.records,
            total_lag=sum(each.records for each in lags),
            max_lag_consumer=related(
                call, "consumer-groups", name, "consumers", most.member.member_id
            ),
            max_lag_partition=related(call, "topics", where.topic, "partitions", where.partition),
        )
    )


def _find(call: Call) -> GroupDescription:
    check_cluster(call)
    name = call.request.path["consumer_group_id"]
    found = GroupAdmin(call.pool).describe(name)
    if isinstance(found, BrokerError):
        if found.code in (ErrorCode.group_id_not_found, ErrorCode.invalid_group_id):
            raise RestError(404, f"Consumer group {name} cannot be found.")
        raise found
    return found


def _member(call: Call, group: GroupDescription) -> MemberDescription:
    wanted = call.request.path["consumer_id"]
    for each in group.members:
        if each.member_id == wanted:
            return each
    raise RestError(404, f"Consumer {wanted} cannot be found.")


def _partition(call: Call) -> TopicPartition:
    """Return the partition that the path names.

    Raises:
        RestError: 40301, the caller may not describe its topic.
    """
    topic = call.request.path["topic_name"]
    call.request.caller.check(Right.DESCRIBE, [topic])
    return TopicPartition(topic, call.request.number("partition_id"))


def _lags(
    call: Call, group: GroupDescription, wanted: Iterable[TopicPartition] | None = None
) -> list[_Lag]:
    """Return the lags of all partitions that have a committed offset, or of some of them; of topics
    that the caller may describe."""
    found = GroupAdmin(call.pool).offsets(group.group)
    visible = {topic for topic in {each.topic for each in found} if call.can_describe(topic)}
    committed = {each: offset for each, offset in found.items() if each.topic in visible}
    if wanted is not None:
        committed = {each: committed[each] for each in wanted if each in committed}
    owners = {where: each for each in group.members for where in each.partitions}
    ends = list_offsets(call.pool, dict.fromkeys(committed, LATEST)) if committed else {}
    lags = []
    for where, offset in sorted(committed.items()):
        end = ends[where]
        if not isinstance(end, ClientError):  # a partition that is gone has no lag
            lags.append(_Lag(where, owners.get(where, _NO_MEMBER), offset, end.offset))
    return lags


def _group(call: Call, group: GroupDescription) -> dict[str, Any]:
    place = ("consumer-groups", group.group)
    return resource(
        call,
        "KafkaConsumerGroup",
        place,
        f"consumer-group={group.group}",
        consumer_group_id=group.group,
        is_simple=group.type == "classic" and not group.assignor and not group.members,
        partition_assignor=group.assignor,
        state=_WORD.sub("_", group.state).upper(),
        coordinator=related(call, "brokers", group.coordinator),
        consumers=related(call, *place, "consumers"),
        lag_summary=related(call, *place, "lag-summary"),
    )


def _consumer(call: Call, group: str, member: MemberDescription) -> dict[str, Any]:
    place = ("consumer-groups", group, "consumers", member.member_id)
    return resource(
        call,
        "KafkaConsumer",
        place,
        f"consumer-group={group}/consumer={member.member_id}",
        consumer_group_id=group,
        consumer_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        assignments=related(call, *place, "assignments"),
    )


def _assignment(
    call: Call, group: str, member: MemberDescription, where: TopicPartition
) -> dict[str, Any]:
    place = ("consumer-groups", group, "consumers", member.member_id, "assignments")
    topic, index = where.topic, where.partition
    return resource(
        call,
        "KafkaConsumerAssignment",
        (*place, topic, "partitions", index),
        f"consumer-group={group}/consumer={member.member_id}/assignment={topic}/partition={index}",
        consumer_group_id=group,
        consumer_id=member.member_id,
        topic_name=topic,
        partition_id=index,
        partition=related(call, "topics", topic, "partitions", index),
        lag=related(call, "consumer-groups", group, "lags", topic, "partitions", index),
    )


def _lag(call: Call, group: str, lag: _Lag) -> dict[str, Any]:
    topic, index = lag.where.topic, lag.where.partition
    return resource(
        call,
        "KafkaConsumerLag",
        ("consumer-groups", group, "lags", topic, "partitions", index),
        f"consumer-group={group}/lag={topic}/partition={index}",
        consumer_group_id=group,
        topic_name=topic,
        partition_id=index,
        consumer_id=lag.member.member_id,
        instance_id=lag.member.instance_id,
        client_id=lag.member.client_id,
        current_offset=lag.committed,
        log_end_offset=lag.end,
        lag=lag.records,
    )
