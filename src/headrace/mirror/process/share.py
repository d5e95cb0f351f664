"""What one process copies of a flow: all of it, or its share among several instances."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.client.write.transaction_calls import NO_MEMBERSHIP, GroupMembership
from headrace.mirror.process.topic_plan import TopicPlan
from headrace.model.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Share:
    """Partitions of a plan.

    Attributes:
        plan: all topics of the flow.
        pairs: the partitions to copy, at the source and at the target.
        membership: in the flow's group, of an instance among several.
    """

    plan: TopicPlan
    pairs: Mapping[TopicPartition, TopicPartition]
    membership: GroupMembership = NO_MEMBERSHIP

    @classmethod
    def whole(cls, plan: TopicPlan) -> "Share":
        """Return everything."""
        return cls(plan, dict(plan.pairs()))

    @classmethod
    def assigned(
        cls, plan: TopicPlan, remote: set[TopicPartition], membership: GroupMembership
    ) -> "Share":
        """Return the partitions that the group assigned, named as at the target."""
        pairs = {here: there for here, there in plan.pairs() if there in remote}
        return cls(plan, pairs, membership)
