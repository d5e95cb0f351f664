"""The bytes of `__consumer_offsets` keys and values, as Kafka 4.2 writes and reads them.

A key starts with an int16 that says which record it is, a value with an int16 version. We write the
versions Kafka 4.2 writes (offset commit 4, or 1 when the client chose the expiry; group metadata 3;
all others 0) and read every version it reads. Keys are never flexible: their bytes decide what
compaction takes for the same key, so they must not change. `docs/formats/consumer-offsets.md` has
the tables.
"""

from collections.abc import Callable, Iterable
from itertools import groupby

from headrace.groups.primitive_codec import MalformedRecord, RecordReader, RecordWriter
from headrace.groups.record import (
    NO_TOPIC_ID,
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
    PartitionMetadataRecord,
    RegexRecord,
    ResolvedRegex,
    StoredMember,
    StoredOffset,
    TargetEpochRecord,
    TargetMemberRecord,
)
from headrace.groups.topic import TopicIdPartition
from headrace.model.error import CorruptLog

_LEGACY_OFFSET_COMMIT = 0
_OFFSET_COMMIT = 1
_GROUP_METADATA = 2
_GROUP_EPOCH = 3
_PARTITION_METADATA = 4
_MEMBER_METADATA = 5
_TARGET_EPOCH = 6
_TARGET_MEMBER = 7
_CURRENT_ASSIGNMENT = 8
_REGEX = 16

_OFFSET_COMMIT_VERSION = 4
_OFFSET_COMMIT_EXPIRING_VERSION = 1
_GROUP_METADATA_VERSION = 3

_NO_EXPIRY = -1


def encode(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Return the key and the value of `record`; the value of a tombstone is None."""
    value = None if record.value is None else _encode_value(record)
    return _encode_key(record), value


def decode(key: bytes, value: bytes | None) -> GroupRecord | None:
    """Return the record of a key and a value, or None for a kind of record that is not ours.

    Share and streams groups of Apache Kafka keep theirs in the same topic: step over them.

    Raises:
        CorruptLog: the bytes are not what their type and version say.
    """
    try:
        reader = RecordReader(key)
        decoder = _DECODERS.get(reader.int16())
        return None if decoder is None else decoder(reader, value)
    except MalformedRecord as error:
        raise CorruptLog(f"a record of __consumer_offsets cannot be read: {error}") from None


def _encode_key(record: GroupRecord) -> bytes:
    writer = RecordWriter()
    match record:
        case OffsetCommitRecord():
            _write_key(writer, _OFFSET_COMMIT, record.group, record.topic)
            writer.int32(record.partition)
        case GroupMetadataRecord():
            _write_key(writer, _GROUP_METADATA, record.group)
        case GroupEpochRecord():
            _write_key(writer, _GROUP_EPOCH, record.group)
        case PartitionMetadataRecord():
            _write_key(writer, _PARTITION_METADATA, record.group)
        case MemberMetadataRecord():
            _write_key(writer, _MEMBER_METADATA, record.group, record.member_id)
        case TargetEpochRecord():
            _write_key(writer, _TARGET_EPOCH, record.group)
        case TargetMemberRecord():
            _write_key(writer, _TARGET_MEMBER, record.group, record.member_id)
        case CurrentAssignmentRecord():
            _write_key(writer, _CURRENT_ASSIGNMENT, record.group, record.member_id)
        case RegexRecord():
            _write_key(writer, _REGEX, record.group, record.regex)
    return bytes(writer)


def _write_key(writer: RecordWriter, record_type: int, *names: str) -> None:
    writer.int16(record_type)
    for name in names:
        writer.string(name)


def _encode_value(record: GroupRecord) -> bytes:
    writer = RecordWriter()
    match record.value:
        case StoredOffset() as offset:
            _write_offset(writer, offset)
        case GroupMetadata() as metadata:
            _write_group_metadata(writer, metadata)
        case GroupEpoch() as group:
            writer.int16(0)
            writer.int32(group.epoch)
            writer.tags(_metadata_hash_tag(group.metadata_hash))
        case MemberMetadata() as member:
            _write_member_metadata(writer, member)
        case CurrentAssignment() as current:
            _write_current_assignment(writer, current)
        case ResolvedRegex() as resolved:
            writer.int16(0)
            writer.compact_array(resolved.topics, writer.compact_string)
            writer.int64(resolved.version)
            writer.int64(resolved.timestamp_ms)
            writer.tags()
        case frozenset() as partitions:
            writer.int16(0)
            _write_partitions(writer, partitions)
            writer.tags()
        case int() as epoch:
            writer.int16(0)
            writer.int32(epoch)
            writer.tags()
        case bytes() as opaque:
            return opaque
    return bytes(writer)


def _write_offset(writer: RecordWriter, offset: StoredOffset) -> None:
    if offset.expire_timestamp_ms is not None:
        writer.int16(_OFFSET_COMMIT_EXPIRING_VERSION)
        writer.int64(offset.offset)
        writer.string(offset.metadata)
        writer.int64(offset.commit_timestamp_ms)
        writer.int64(offset.expire_timestamp_ms)
        return
    writer.int16(_OFFSET_COMMIT_VERSION)
    writer.int64(offset.offset)
    writer.int32(offset.leader_epoch)
    writer.compact_string(offset.metadata)
    writer.int64(offset.commit_timestamp_ms)
    writer.tags([] if offset.topic_id == NO_TOPIC_ID else [(0, offset.topic_id.bytes)])


def _write_group_metadata(writer: RecordWriter, metadata: GroupMetadata) -> None:
    writer.int16(_GROUP_METADATA_VERSION)
    writer.string(metadata.protocol_type)
    writer.int32(metadata.generation)
    writer.string(metadata.protocol)
    writer.string(metadata.leader)
    writer.int64(metadata.state_timestamp_ms)
    writer.int32(len(metadata.members))
    for member in metadata.members:
        writer.string(member.member_id)
        writer.string(member.instance_id)
        writer.string(member.client_id)
        writer.string(member.client_host)
        writer.int32(member.rebalance_timeout_ms)
        writer.int32(member.session_timeout_ms)
        writer.blob(member.subscription)
        writer.blob(member.assignment)


def _metadata_hash_tag(metadata_hash: int) -> list[tuple[int, bytes]]:
    return [] if metadata_hash == 0 else [(0, metadata_hash.to_bytes(8, "big", signed=True))]


def _write_member_metadata(writer: RecordWriter, member: MemberMetadata) -> None:
    writer.int16(0)
    writer.compact_string(member.instance_id)
    writer.compact_string(member.rack_id)
    writer.compact_string(member.client_id)
    writer.compact_string(member.client_host)
    writer.compact_array(member.subscribed_topic_names, writer.compact_string)
    writer.compact_string(member.subscribed_topic_regex)
    writer.int32(member.rebalance_timeout_ms)
    writer.compact_string(member.server_assignor)
    writer.tags(_classic_tag(member.classic))


def _classic_tag(classic: ClassicMetadata | None) -> list[tuple[int, bytes]]:
    """Return tag 0: a struct that may be null, so that a byte in front says that it is there."""
    if classic is None:
        return []
    inner = RecordWriter()
    inner.int8(1)
    inner.int32(classic.session_timeout_ms)

    def write(protocol: MemberProtocol) -> None:
        inner.compact_string(protocol.name)
        inner.compact_blob(protocol.metadata)
        inner.tags()

    inner.compact_array(classic.protocols, write)
    inner.tags()
    return [(0, bytes(inner))]


def _read_classic_tag(tag: bytes | None) -> ClassicMetadata | None:
    if tag is None:
        return None
    reader = RecordReader(tag)
    if reader.int8() < 0:
        return None
    session_timeout_ms = reader.int32()

    def read() -> MemberProtocol:
        protocol = MemberProtocol(reader.compact_string(), reader.compact_blob())
        reader.tags()
        return protocol

    protocols = tuple(reader.compact_array(read))
    reader.tags()
    return ClassicMetadata(session_timeout_ms=session_timeout_ms, protocols=protocols)


def _write_current_assignment(writer: RecordWriter, current: CurrentAssignment) -> None:
    writer.int16(0)
    writer.int32(current.member_epoch)
    writer.int32(current.previous_member_epoch)
    writer.int8(current.state)
    _write_partitions(writer, current.assigned)
    _write_partitions(writer, current.pending_revocation)
    writer.tags()


def _write_partitions(writer: RecordWriter, partitions: Iterable[TopicIdPartition]) -> None:
    topics = groupby(sorted(partitions), key=lambda partition: partition.topic_id)
    grouped = [(topic_id, [item.partition for item in items]) for topic_id, items in topics]
    writer.uvarint(len(grouped) + 1)
    for topic_id, numbers in grouped:
        writer.uuid(topic_id)
        writer.compact_array(numbers, writer.int32)
        writer.tags()


def _decode_offset(key: RecordReader, value: bytes | None) -> OffsetCommitRecord:
    group, topic, partition = key.string(), key.string(), key.int32()
    committed = None if value is None else _read_offset(RecordReader(value))
    return OffsetCommitRecord(group=group, topic=topic, partition=partition, value=committed)


def _read_offset(reader: RecordReader) -> StoredOffset:
    version = _version(reader, _OFFSET_COMMIT_VERSION)
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    metadata = reader.compact_string() if version >= 4 else reader.string()
    commit_timestamp_ms = reader.int64()
    expire_timestamp_ms = reader.int64() if version == 1 else _NO_EXPIRY
    topic_id = reader.tags().get(0, NO_TOPIC_ID.bytes) if version >= 4 else NO_TOPIC_ID.bytes
    return StoredOffset(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp_ms=commit_timestamp_ms,
        expire_timestamp_ms=None if expire_timestamp_ms == _NO_EXPIRY else expire_timestamp_ms,
        topic_id=RecordReader(topic_id).uuid(),
    )


def _decode_group_metadata(key: RecordReader, value: bytes | None) -> GroupMetadataRecord:
    group = key.string()
    metadata = None if value is None else _read_group_metadata(RecordReader(value))
    return GroupMetadataRecord(group=group, value=metadata)


def _read_group_metadata(reader: RecordReader) -> GroupMetadata:
    version = _version(reader, 4)
    flexible = version >= 4
    nullable = reader.compact_nullable_string if flexible else reader.nullable_string
    protocol_type = reader.compact_string() if flexible else reader.string()
    generation = reader.int32()
    protocol, leader = nullable(), nullable()
    state_timestamp_ms = reader.int64() if version >= 2 else -1
    array = reader.compact_array if flexible else reader.array
    members = array(lambda: _read_stored_member(reader, version))
    return GroupMetadata(
        protocol_type=protocol_type,
        generation=generation,
        protocol=protocol,
        leader=leader,
        state_timestamp_ms=state_timestamp_ms,
        members=tuple(members),
    )


def _read_stored_member(reader: RecordReader, version: int) -> StoredMember:
    flexible = version >= 4
    string = reader.compact_string if flexible else reader.string
    nullable = reader.compact_nullable_string if flexible else reader.nullable_string
    blob = reader.compact_blob if flexible else reader.blob
    member_id = string()
    instance_id = nullable() if version >= 3 else None
    client_id, client_host = string(), string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else None
    session_timeout_ms = reader.int32()
    subscription, assignment = blob(), blob()
    if flexible:
        reader.tags()
    return StoredMember(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=(
            session_timeout_ms if rebalance_timeout_ms is None else rebalance_timeout_ms
        ),
        session_timeout_ms=session_timeout_ms,
        subscription=subscription,
        assignment=assignment,
    )


def _decode_group_epoch(key: RecordReader, value: bytes | None) -> GroupEpochRecord:
    group = key.string()
    if value is None:
        return GroupEpochRecord(group=group, value=None)
    reader = RecordReader(value)
    _version(reader, 0)
    epoch = reader.int32()
    tag = reader.tags().get(0)
    metadata_hash = 0 if tag is None else RecordReader(tag).int64()
    return GroupEpochRecord(group=group, value=GroupEpoch(epoch=epoch, metadata_hash=metadata_hash))


def _decode_partition_metadata(key: RecordReader, value: bytes | None) -> PartitionMetadataRecord:
    return PartitionMetadataRecord(group=key.string(), value=value)


def _decode_member_metadata(key: RecordReader, value: bytes | None) -> MemberMetadataRecord:
    group, member_id = key.string(), key.string()
    if value is None:
        return MemberMetadataRecord(group=group, member_id=member_id, value=None)
    reader = RecordReader(value)
    _version(reader, 0)
    metadata = MemberMetadata(
        instance_id=reader.compact_nullable_string(),
        rack_id=reader.compact_nullable_string(),
        client_id=reader.compact_string(),
        client_host=reader.compact_string(),
        subscribed_topic_names=tuple(reader.compact_array(reader.compact_string)),
        subscribed_topic_regex=reader.compact_nullable_string(),
        rebalance_timeout_ms=reader.int32(),
        server_assignor=reader.compact_nullable_string(),
        classic=_read_classic_tag(reader.tags().get(0)),
    )
    return MemberMetadataRecord(group=group, member_id=member_id, value=metadata)


def _decode_target_epoch(key: RecordReader, value: bytes | None) -> TargetEpochRecord:
    group = key.string()
    if value is None:
        return TargetEpochRecord(group=group, value=None)
    reader = RecordReader(value)
    _version(reader, 0)
    return TargetEpochRecord(group=group, value=reader.int32())


def _decode_target_member(key: RecordReader, value: bytes | None) -> TargetMemberRecord:
    group, member_id = key.string(), key.string()
    if value is None:
        return TargetMemberRecord(group=group, member_id=member_id, value=None)
    reader = RecordReader(value)
    _version(reader, 0)
    return TargetMemberRecord(group=group, member_id=member_id, value=_read_partitions(reader))


def _decode_current_assignment(key: RecordReader, value: bytes | None) -> CurrentAssignmentRecord:
    group, member_id = key.string(), key.string()
    if value is None:
        return CurrentAssignmentRecord(group=group, member_id=member_id, value=None)
    reader = RecordReader(value)
    _version(reader, 0)
    member_epoch, previous_member_epoch, state = reader.int32(), reader.int32(), reader.int8()
    current = CurrentAssignment(
        member_epoch=member_epoch,
        previous_member_epoch=previous_member_epoch,
        # A state that a later version added: the member is made to join again.
        state=MemberState(state) if state in set(MemberState) else MemberState.UNKNOWN,
        assigned=_read_partitions(reader),
        pending_revocation=_read_partitions(reader),
    )
    return CurrentAssignmentRecord(group=group, member_id=member_id, value=current)


def _decode_regex(key: RecordReader, value: bytes | None) -> RegexRecord:
    group, regex = key.string(), key.string()
    if value is None:
        return RegexRecord(group=group, regex=regex, value=None)
    reader = RecordReader(value)
    _version(reader, 0)
    resolved = ResolvedRegex(
        topics=tuple(reader.compact_array(reader.compact_string)),
        version=reader.int64(),
        timestamp_ms=reader.int64(),
    )
    return RegexRecord(group=group, regex=regex, value=resolved)


def _read_partitions(reader: RecordReader) -> frozenset[TopicIdPartition]:
    def topic() -> list[TopicIdPartition]:
        topic_id = reader.uuid()
        partitions = reader.compact_array(reader.int32)
        reader.tags()
        return [TopicIdPartition(topic_id, partition) for partition in partitions]

    topics = reader.compact_array(topic)
    return frozenset(partition for partitions in topics for partition in partitions)


def _version(reader: RecordReader, highest: int) -> int:
    version = reader.int16()
    if not 0 <= version <= highest:
        raise MalformedRecord(f"value version {version} is not between 0 and {highest}")
    return version


_DECODERS: dict[int, Callable[[RecordReader, bytes | None], GroupRecord]] = {
    _LEGACY_OFFSET_COMMIT: _decode_offset,
    _OFFSET_COMMIT: _decode_offset,
    _GROUP_METADATA: _decode_group_metadata,
    _GROUP_EPOCH: _decode_group_epoch,
    _PARTITION_METADATA: _decode_partition_metadata,
    _MEMBER_METADATA: _decode_member_metadata,
    _TARGET_EPOCH: _decode_target_epoch,
    _TARGET_MEMBER: _decode_target_member,
    _CURRENT_ASSIGNMENT: _decode_current_assignment,
    _REGEX: _decode_regex,
}
