"""Requests about committed offsets and their replies, free of any wire version."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from headrace.groups.effect import Producer
from headrace.groups.error import GroupError
from headrace.groups.record import NO_TOPIC_ID
from headrace.groups.request import GroupReply, GroupRequest
from headrace.model.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetToCommit:
    """One position that a client wants kept."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: UUID = NO_TOPIC_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReply(GroupReply):
    """The reply to OffsetCommit; `errors` names the partitions that were not kept."""

    errors: Mapping[TopicPartition, GroupError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest(GroupRequest[CommitReply]):
    """An OffsetCommit request, or a TxnOffsetCommit request when `producer` is set.

    Attributes:
        generation: the generation of a classic member or the epoch of a KIP-848 member; -1 from an
            admin client and from a consumer that assigns itself.
        retention_ms: how long the client wants the offsets kept (OffsetCommit 2 to 4), or None.
        knows_epochs: the request's version can answer STALE_MEMBER_EPOCH (OffsetCommit 9, KIP-848).
    """

    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None
    offsets: Mapping[TopicPartition, OffsetToCommit]
    retention_ms: int | None = None
    knows_epochs: bool = True
    producer: Producer | None = None

    @property
    def is_of_producer_alone(self) -> bool:
        """Whether a producer commits in its transaction and names no member of the group.

        Clients before KIP-447 cannot name one, and later ones need not.
        """
        anonymous = self.generation < 0 and not self.member_id and self.instance_id is None
        return anonymous and self.producer is not None

    def refused(self, error: GroupError) -> CommitReply:
        return CommitReply(error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteReply(GroupReply):
    """The reply to OffsetDelete; `errors` names the partitions that stay."""

    errors: Mapping[TopicPartition, GroupError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteRequest(GroupRequest[OffsetDeleteReply]):
    """An OffsetDelete request (KIP-496)."""

    partitions: Collection[TopicPartition]

    def refused(self, error: GroupError) -> OffsetDeleteReply:
        return OffsetDeleteReply(error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupReply(GroupReply):
    """The reply for one group of DeleteGroups."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupRequest(GroupRequest[DeleteGroupReply]):
    """One group of a DeleteGroups request: the group goes, and its offsets with it."""

    def refused(self, error: GroupError) -> DeleteGroupReply:
        return DeleteGroupReply(group_id=self.group_id, error=error)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedOffset:
    """One partition of the reply to OffsetFetch. Offset -1 says that nothing is committed."""

    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: GroupError | None = None
