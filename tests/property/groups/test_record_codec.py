from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.groups.record import (
    ClassicMetadata,
    CurrentAssignment,
    CurrentAssignmentRecord,
    GroupEpoch,
    GroupEpochRecord,
    GroupMetadata,
    GroupMetadataRecord,
    GroupRecord,
    MemberMetadata,
    MemberMetadataRecord,
    MemberProtocol,
    MemberState,
    OffsetCommitRecord,
    RegexRecord,
    ResolvedRegex,
    StoredMember,
    StoredOffset,
    TargetEpochRecord,
    TargetMemberRecord,
)
from headrace.groups.record_codec import decode, encode
from headrace.groups.topic import TopicIdPartition
from headrace.model.error import CorruptLog

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
maybe_text = st.none() | text
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
partitions = st.frozensets(
    st.builds(TopicIdPartition, st.integers(0, 3).map(lambda n: UUID(int=n)), st.integers(0, 99)),
    max_size=20,
)
plain_offset = st.builds(
    StoredOffset,
    offset=int64,
    leader_epoch=int32,
    metadata=text,
    commit_timestamp_ms=int64,
    topic_id=st.uuids() | st.just(UUID(int=0)),
)
expiring_offset = st.builds(
    StoredOffset,
    offset=int64,
    metadata=text,
    commit_timestamp_ms=int64,
    expire_timestamp_ms=st.integers(0, 2**63 - 1),
)
stored_member = st.builds(
    StoredMember,
    member_id=text,
    instance_id=maybe_text,
    client_id=text,
    client_host=text,
    rebalance_timeout_ms=int32,
    session_timeout_ms=int32,
    subscription=st.binary(max_size=50),
    assignment=st.binary(max_size=50),
)
group_metadata = st.builds(
    GroupMetadata,
    protocol_type=text,
    generation=int32,
    protocol=maybe_text,
    leader=maybe_text,
    state_timestamp_ms=int64,
    members=st.lists(stored_member, max_size=4).map(tuple),
)
member_metadata = st.builds(
    MemberMetadata,
    instance_id=maybe_text,
    rack_id=maybe_text,
    client_id=text,
    client_host=text,
    subscribed_topic_names=st.lists(text, max_size=4).map(tuple),
    subscribed_topic_regex=maybe_text,
    rebalance_timeout_ms=int32,
    server_assignor=maybe_text,
    classic=st.none()
    | st.builds(
        ClassicMetadata,
        session_timeout_ms=int32,
        protocols=st.lists(st.builds(MemberProtocol, text, st.binary(max_size=9))).map(tuple),
    ),
)
current_assignment = st.builds(
    CurrentAssignment,
    member_epoch=int32,
    previous_member_epoch=int32,
    state=st.sampled_from(MemberState),
    assigned=partitions,
    pending_revocation=partitions,
)
resolved_regex = st.builds(
    ResolvedRegex,
    topics=st.lists(text, max_size=4).map(tuple),
    version=int64,
    timestamp_ms=int64,
)
records: st.SearchStrategy[GroupRecord] = st.one_of(
    st.builds(
        OffsetCommitRecord,
        group=text,
        topic=text,
        partition=int32,
        value=st.none() | plain_offset | expiring_offset,
    ),
    st.builds(GroupMetadataRecord, group=text, value=st.none() | group_metadata),
    st.builds(
        GroupEpochRecord,
        group=text,
        value=st.none() | st.builds(GroupEpoch, epoch=int32, metadata_hash=int64),
    ),
    st.builds(MemberMetadataRecord, group=text, member_id=text, value=st.none() | member_metadata),
    st.builds(TargetEpochRecord, group=text, value=st.none() | int32),
    st.builds(TargetMemberRecord, group=text, member_id=text, value=st.none() | partitions),
    st.builds(
        CurrentAssignmentRecord, group=text, member_id=text, value=st.none() | current_assignment
    ),
    st.builds(RegexRecord, group=text, regex=text, value=st.none() | resolved_regex),
)


@settings(deadline=None, max_examples=200)
@given(records)
def test_a_record_survives_its_bytes(record: GroupRecord) -> None:
    assert decode(*encode(record)) == record


@settings(deadline=None, max_examples=200)
@given(records, st.data())
def test_damaged_bytes_are_refused_or_read_as_something_never_worse(
    record: GroupRecord, data: st.DataObject
) -> None:
    key, value = encode(record)
    damaged = bytearray(value or b"\0\0")
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    del damaged[data.draw(st.integers(0, len(damaged))) :]

    try:
        decode(key, bytes(damaged))
    except CorruptLog as error:
        assert "__consumer_offsets" in str(error)
