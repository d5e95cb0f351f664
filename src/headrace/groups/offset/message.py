"""Requests about committed offsets and their answers, free of any wire version."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from headrace.groups.effect import Producer
from headrace.groups.error import GroupError
from headrace.groups.record import NO_TOPIC_ID
from headrace.model.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetToCommit:
    """One position a client wants kept."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    topic_id: UUID = NO_TOPIC_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRequest:
    """OffsetCommit, or TxnOffsetCommit when `producer` is set.

    Attributes:
        generation: the generation of a classic member or the epoch of a KIP-848 member; -1 from an
            admin client and from a consumer that assigns itself.
        retention_ms: how long the client wants the offsets kept (OffsetCommit 2 to 4), or None.
        knows_epochs: the request's version can answer STALE_MEMBER_EPOCH (OffsetCommit 9, KIP-848).
    """

    group_id: str
    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None
    offsets: Mapping[TopicPartition, OffsetToCommit]
    retention_ms: int | None = None
    knows_epochs: bool = True
    producer: Producer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitReply:
    """`error` refuses the whole request; else `errors` names the partitions that were not kept."""

    error: GroupError | None = None
    errors: Mapping[TopicPartition, GroupError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetDeleteReply:
    """`error` refuses the whole request; else `errors` names the partitions that stay."""

    error: GroupError | None = None
    errors: Mapping[TopicPartition, GroupError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupReply:
    """The answer for one group of DeleteGroups."""

    group_id: str
    error: GroupError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedOffset:
    """One partition of OffsetFetch. Offset -1 says that nothing is committed."""

    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    error: GroupError | None = None
