"""The records of `__consumer_offsets`, typed. `record_codec` has their bytes.

A record with `value=None` is a tombstone: it deletes what its key names. Everything that must
survive a restart is one of these, and a group's durable state is exactly what applying them in
order gives.
"""

from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, TypeAlias
from uuid import UUID

from headrace.groups.topic import TopicIdPartition

NO_TOPIC_ID = UUID(int=0)


class MemberState(IntEnum):
    """How far a KIP-848 member has reconciled; the value is the record's."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOffset:
    """A committed position. `expire_timestamp_ms` is set only by clients that ask for it (v2-4)."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    topic_id: UUID = NO_TOPIC_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMember:
    """A member of a classic group as the last completed rebalance left it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadata:
    """A classic group as the last completed rebalance left it."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[StoredMember, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEpoch:
    """A KIP-848 group's epoch and the hash of the topics it was decided upon."""

    epoch: int
    metadata_hash: int


class MemberProtocol(NamedTuple):
    """One protocol (for consumers: assignor) a member supports, with its bytes for the leader."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMetadata:
    """What a member says that takes part in a KIP-848 group by the classic protocol."""

    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    """What a KIP-848 member reports about itself. `classic` is set while it speaks the other
    protocol."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicMetadata | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAssignment:
    """What a KIP-848 member holds, and at which epoch."""

    member_epoch: int
    previous_member_epoch: int
    state: MemberState
    assigned: frozenset[TopicIdPartition]
    pending_revocation: frozenset[TopicIdPartition]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedRegex:
    """The topics a regular expression stood for, at one version of the topics."""

    topics: tuple[str, ...]
    version: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitRecord:
    """A committed offset (key type 1; 0 is read as well)."""

    group: str
    topic: str
    partition: int
    value: StoredOffset | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataRecord:
    """A classic group (key type 2)."""

    group: str
    value: GroupMetadata | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEpochRecord:
    """The epoch of a KIP-848 group (key type 3)."""

    group: str
    value: GroupEpoch | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadataRecord:
    """The partition counts of subscribed topics (key type 4).

    Kafka stopped writing it in 4.1; it is read only to be deleted.
    """

    group: str
    value: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadataRecord:
    """A member of a KIP-848 group (key type 5)."""

    group: str
    member_id: str
    value: MemberMetadata | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEpochRecord:
    """The epoch of the target assignment (key type 6)."""

    group: str
    value: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetMemberRecord:
    """The target assignment of one member (key type 7)."""

    group: str
    member_id: str
    value: frozenset[TopicIdPartition] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentAssignmentRecord:
    """The current assignment of one member (key type 8)."""

    group: str
    member_id: str
    value: CurrentAssignment | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegexRecord:
    """A resolved regular expression (key type 16)."""

    group: str
    regex: str
    value: ResolvedRegex | None


ConsumerGroupRecord: TypeAlias = (
    GroupEpochRecord
    | PartitionMetadataRecord
    | MemberMetadataRecord
    | TargetEpochRecord
    | TargetMemberRecord
    | CurrentAssignmentRecord
    | RegexRecord
)

GroupRecord: TypeAlias = OffsetCommitRecord | GroupMetadataRecord | ConsumerGroupRecord
