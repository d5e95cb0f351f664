"""Makes a KIP-848 group of a classic group with members, and the other way round.

    classic --a member of the consumer protocol joins--> consumer, with classic members in it
    consumer --the last member of the consumer protocol is gone--> classic

Rule 1: members, instance ids, generation and assignment pass over; committed offsets do not belong
        to either kind and stay where they are.
Rule 2: the generation is the group's epoch. It does not change by the conversion itself, so that
        members may commit what they have read before they join again.
Rule 3: a cooperative member may still hold what it owned when it joined and was not given again.
        Such partitions wait for its revocation, so that no other member gets them too early.
Rule 4: parked requests are answered with REBALANCE_IN_PROGRESS, on which clients join again.
Rule 5: both kinds of records are in one append: the tombstones of the old kind, then the new. A
        crash leaves the group as it was, or converted.
"""

from dataclasses import dataclass, replace

from headrace.groups.classic.group import ClassicGroup
from headrace.groups.classic.member import ClassicMember, common_protocols, select_protocol
from headrace.groups.classic_subscription import (
    CONSUMER_PROTOCOL_TYPE,
    ConsumerSubscription,
    read_assignment,
    read_subscription,
    subscription_version,
    write_assignment,
)
from headrace.groups.consumer.group import ConsumerGroup
from headrace.groups.effect import GroupOutput
from headrace.groups.error import GroupError
from headrace.groups.record import (
    ClassicMetadata,
    CurrentAssignment,
    CurrentAssignmentRecord,
    GroupEpoch,
    GroupEpochRecord,
    GroupMetadata,
    GroupMetadataRecord,
    MemberMetadata,
    MemberMetadataRecord,
    MemberProtocol,
    MemberState,
    TargetEpochRecord,
    TargetMemberRecord,
)
from headrace.groups.topic import TopicIdPartition, TopicSource, with_ids, with_names

# Their members need nothing but partitions. As a leader, librdkafka returns to each member of the
# sticky ones the data that the member itself has sent.
_PLAIN_ASSIGNORS = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Convertible:
    """A classic member whose bytes could be read.

    Attributes:
        assigned: what the leader gave it.
        unrevoked: what it owned when it joined, and should give up (rule 3).
    """

    member: ClassicMember
    subscription: ConsumerSubscription
    assigned: frozenset[TopicIdPartition]
    unrevoked: frozenset[TopicIdPartition] = frozenset()


def upgraded(
    group: ClassicGroup, topics: TopicSource, now_ms: int, out: GroupOutput
) -> ConsumerGroup | None:
    """Return the group as a KIP-848 group; None when it cannot become one.

    Its members must be consumers, and their assignor must not need data of its own beside the
    assignments, as that of Kafka Streams does.
    """
    members = _convertible(group, topics)
    if members is None or not group.config.may_upgrade:
        return None
    for token, reply in group.parked():
        out.reply(token, replace(reply, error=GroupError.REBALANCE_IN_PROGRESS))
    out.append(GroupMetadataRecord(group=group.group_id, value=None))
    result = ConsumerGroup(group.group_id, group.config)
    for each in members:
        _emit_member(result, each, group.generation, out)
    epoch = GroupEpoch(epoch=group.generation, metadata_hash=result.image.topic_hash(topics))
    result.emit(GroupEpochRecord(group=group.group_id, value=epoch), out)
    result.emit(TargetEpochRecord(group=group.group_id, value=group.generation), out)
    result.start_timers(now_ms)
    return result


def _convertible(group: ClassicGroup, topics: TopicSource) -> list[_Convertible] | None:
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    taken: set[TopicIdPartition] = set()
    members = []
    for each in group.members.values():
        member = replace(each, protocols=_agreed_first(each.protocols, group.protocol))
        subscription = read_subscription(member.protocols[0].metadata)
        assignment = read_assignment(member.assignment)
        if subscription is None or assignment is None:
            return None
        if assignment.user_data and group.protocol not in _PLAIN_ASSIGNORS:
            return None
        # A leader may have given a partition to two members; only one of them can hold it here.
        assigned = with_ids(assignment.partitions, topics) - taken
        taken |= assigned
        members.append(_Convertible(member=member, subscription=subscription, assigned=assigned))
    for index, convertible in enumerate(members):
        unrevoked = with_ids(convertible.subscription.owned, topics) - taken
        taken |= unrevoked
        members[index] = replace(convertible, unrevoked=unrevoked)
    return members


def _agreed_first(
    protocols: tuple[MemberProtocol, ...], agreed: str | None
) -> tuple[MemberProtocol, ...]:
    """Put the protocol in use first, which is where `ClassicMembership` looks for it.

    Before its first generation a group has not agreed on one yet: the order is then the member's.
    """
    return tuple(sorted(protocols, key=lambda each: each.name != agreed))


def _emit_member(
    group: ConsumerGroup, each: _Convertible, generation: int, out: GroupOutput
) -> None:
    member, group_id = each.member, group.group_id
    metadata = MemberMetadata(
        instance_id=member.instance_id,
        rack_id=each.subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(each.subscription.topics)),
        subscribed_topic_regex=None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=None,
        classic=ClassicMetadata(
            session_timeout_ms=member.session_timeout_ms, protocols=member.protocols
        ),
    )
    current = CurrentAssignment(
        member_epoch=generation,
        previous_member_epoch=generation,
        state=MemberState.UNREVOKED_PARTITIONS if each.unrevoked else MemberState.STABLE,
        assigned=each.assigned,
        pending_revocation=each.unrevoked,
    )
    id_ = member.member_id
    group.emit(MemberMetadataRecord(group=group_id, member_id=id_, value=metadata), out)
    group.emit(TargetMemberRecord(group=group_id, member_id=id_, value=each.assigned), out)
    group.emit(CurrentAssignmentRecord(group=group_id, member_id=id_, value=current), out)


def downgraded(
    group: ConsumerGroup, generation: int, topics: TopicSource, now_ms: int, out: GroupOutput
) -> ClassicGroup | None:
    """Return the group as a classic group in a new join phase; None when it stays as it is.

    Args:
        generation: the group's epoch before the last member of the consumer protocol was removed.
    """
    config = group.config
    all_classic = all(each.classic is not None for each in group.members.values())
    if not group.members or not all_classic:
        return None
    if not config.may_downgrade or len(group.members) > config.group_max_size:
        return None
    members = [
        _classic_member(group, id_, metadata, topics) for id_, metadata in group.members.items()
    ]
    if not common_protocols(members):
        return None
    for record in group.image.tombstones():
        out.append(record)
    protocol = select_protocol(members)
    metadata = GroupMetadata(
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=generation,
        protocol=protocol,
        leader=members[0].member_id,
        state_timestamp_ms=now_ms + out.wall_skew_ms,
        members=tuple(each.stored(protocol) for each in members),
    )
    result = ClassicGroup.restore(group.group_id, config, metadata)
    for each in members:
        # A record has one protocol of each member; the next rebalance chooses among all of them.
        result.roster.add(each)
    result.start_timers(now_ms)
    out.append(result.record())
    result.prepare_rebalance(now_ms, out)
    return result


def _classic_member(
    group: ConsumerGroup, member_id: str, metadata: MemberMetadata, topics: TopicSource
) -> ClassicMember:
    assert metadata.classic is not None
    protocols = metadata.classic.protocols
    held = with_names(group.image.current_of(member_id).assigned, topics)
    return ClassicMember(
        member_id=member_id,
        instance_id=metadata.instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        session_timeout_ms=metadata.classic.session_timeout_ms,
        protocols=protocols,
        assignment=write_assignment(subscription_version(protocols[0].metadata), held),
    )
