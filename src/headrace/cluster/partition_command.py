"""Commands for partitions: settle them, change in-sync replicas, leaders and replicas.

Like all commands they read the state and return changes or rejections; see `state`.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_

from headrace.cluster.election import changed, elect, prefer
from headrace.cluster.entity_size import TopicRoom
from headrace.cluster.rejection import ClusterError, Rejection
from headrace.cluster.state import Change, ClusterState, Put
from headrace.cluster.topic import NO_LEADER, PartitionRecord, TopicRecord
from headrace.model.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition

_UNCLEAN = "unclean.leader.election.enable"

Outcome = Rejection | PartitionRecord


@dataclass(slots=True)
class PartitionPlan:
    """What a command decides: changes to write, and per partition its record or a rejection."""

    changes: list[Change] = field(default_factory=list)
    outcomes: dict[TopicPartition, Outcome] = field(default_factory=dict)

    def leave_out(self, change: Change, why: str) -> None:
        """Refuse what would have changed a topic, because the store cannot hold it."""
        assert isinstance(change.entity, TopicRecord)
        refused = Rejection(ClusterError.POLICY_VIOLATION, why)
        for name, outcome in self.outcomes.items():
            if name.topic == change.entity.name and isinstance(outcome, PartitionRecord):
                self.outcomes[name] = refused


@dataclass(frozen=True, slots=True, kw_only=True)
class IsrProposal:
    """A leader says who is in sync with it; as AlterPartition in Kafka (KIP-497, KIP-903).

    `isr` maps each of them to the broker epoch it fetched with; -1 for those that were in before.
    """

    partition: TopicPartition
    topic_id: TopicId
    leader: BrokerId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: Mapping[BrokerId, int]


def settle_topics(
    state: ClusterState, alive: Collection[BrokerId], *, unclean_default: bool = False
) -> list[Change]:
    """Return the changes that settle every topic while these brokers are alive."""
    return [
        Put(new)
        for topic in state.topics.values()
        if (new := settle_topic(topic, alive, unclean_default=unclean_default)) is not topic
    ]


def settle_topic(
    topic: TopicRecord, alive: Collection[BrokerId], *, unclean_default: bool = False
) -> TopicRecord:
    """Return the topic as it should be while these brokers are alive; itself if it is so."""
    unclean = topic.configs.get(_UNCLEAN, str(unclean_default)).lower() == "true"
    partitions = tuple(
        [_end_move(elect(each, alive, unclean=unclean), alive) for each in topic.partitions]
    )
    if all(map(is_, partitions, topic.partitions)):
        return topic
    return replace(topic, partitions=partitions)


def topic_still_held(state: ClusterState, broker_id: BrokerId) -> str | None:
    """Return a topic that a broker leads, or is in sync with, though others could take over."""
    others = state.brokers.keys() - {broker_id}
    for topic in state.topics.values():
        for each in topic.partitions:
            if each.leader == broker_id or (
                broker_id in each.isr and broker_id not in elect(each, others, unclean=False).isr
            ):
                return topic.name
    return None


def alter_isr(state: ClusterState, proposals: Sequence[IsrProposal]) -> PartitionPlan:
    """Decide each proposal on its own, on the current state."""
    plan = _Plan(state)
    for proposal in proposals:
        partition = plan.find(proposal.partition, proposal.topic_id)
        if isinstance(partition, Rejection):
            plan.outcomes[proposal.partition] = partition
            continue
        rejection = _proposal_problem(state, partition, proposal)
        isr = [each for each in partition.replicas if each in proposal.isr]
        plan.set(proposal.partition, rejection or changed(partition, isr=isr))
    return plan.finish()


def _proposal_problem(
    state: ClusterState, partition: PartitionRecord, proposal: IsrProposal
) -> Rejection | None:
    name = proposal.partition
    if partition.leader != proposal.leader or partition.leader_epoch != proposal.leader_epoch:
        return Rejection(
            ClusterError.FENCED_LEADER_EPOCH,
            f"broker {proposal.leader} does not lead {name} in epoch {proposal.leader_epoch}",
        )
    if partition.partition_epoch != proposal.partition_epoch:
        return Rejection(
            ClusterError.INVALID_UPDATE_VERSION,
            f"{name} is at partition epoch {partition.partition_epoch}, not "
            f"{proposal.partition_epoch}",
        )
    for broker_id, epoch in proposal.isr.items():
        broker = state.brokers.get(broker_id)
        added = broker_id not in partition.isr
        alive = broker is not None and (epoch < 0 or broker.epoch == epoch)
        if broker_id not in partition.replicas or (added and not alive):
            return Rejection(
                ClusterError.INELIGIBLE_REPLICA,
                f"broker {broker_id} is no replica of {name}, or not the one that fetched",
            )
    if proposal.leader not in proposal.isr:
        return Rejection(
            ClusterError.INVALID_REQUEST, f"the leader of {name} is always in sync with itself"
        )
    return None


def elect_leaders(
    state: ClusterState,
    partitions: Sequence[TopicPartition] | None,
    alive: Collection[BrokerId],
    *,
    unclean: bool = False,
) -> PartitionPlan:
    """Elect preferred leaders, or with `unclean` any leader where there is none (KIP-460).

    Args:
        partitions: None means all; only those where something happens are in the outcomes then.
    """
    plan = _Plan(state)
    names = partitions
    if names is None:
        names = [
            TopicPartition(topic.name, index)
            for topic in state.topics.values()
            for index, partition in enumerate(topic.partitions)
            # Nearly all have their preferred leaders, and this is done every few seconds.
            if unclean or partition.leader != partition.replicas[0]
        ]
    for name in names:
        partition = plan.find(name)
        outcome = (
            partition if isinstance(partition, Rejection) else _elect(partition, alive, unclean)
        )
        if partitions is None and isinstance(outcome, Rejection):
            continue
        plan.set(name, outcome)
    return plan.finish()


def _elect(partition: PartitionRecord, alive: Collection[BrokerId], unclean: bool) -> Outcome:
    if unclean:
        if partition.leader != NO_LEADER and partition.leader in alive:
            return Rejection(ClusterError.ELECTION_NOT_NEEDED, "there is a leader")
        new = elect(partition, alive, unclean=True)
        if new.leader == NO_LEADER:
            return Rejection(
                ClusterError.ELIGIBLE_LEADERS_NOT_AVAILABLE, "no replica is on a running broker"
            )
        return new
    if partition.leader == partition.replicas[0]:
        return Rejection(ClusterError.ELECTION_NOT_NEEDED, "the preferred replica leads already")
    new = prefer(partition, alive)
    if new is partition:
        return Rejection(
            ClusterError.PREFERRED_LEADER_NOT_AVAILABLE,
            f"the preferred replica, broker {partition.replicas[0]}, is not in sync",
        )
    return new


def abandon(
    state: ClusterState,
    partitions: Sequence[TopicPartition],
    broker_id: BrokerId,
    others: Collection[BrokerId],
) -> PartitionPlan:
    """Drop a broker whose disk failed from the ISR wherever another replica in sync can lead."""
    plan = _Plan(state)
    for name in partitions:
        partition = plan.find(name)
        if isinstance(partition, Rejection):
            continue
        new = elect(partition, others, unclean=False)
        if new.leader != NO_LEADER and broker_id not in new.isr:
            plan.set(name, new)
    return plan.finish()


def drop_from_isr(
    state: ClusterState, partitions: Sequence[TopicPartition], broker_id: BrokerId
) -> PartitionPlan:
    """Drop a broker that has lost its log from the ISR wherever another replica is in sync, whether
    or not that one runs: each of them has all that was committed."""
    plan = _Plan(state)
    for name in partitions:
        partition = plan.find(name)
        if not isinstance(partition, Rejection) and set(partition.isr) > {broker_id}:
            plan.set(name, elect(partition, set(partition.isr) - {broker_id}, unclean=False))
    return plan.finish()


def reassign(
    state: ClusterState,
    targets: Mapping[TopicPartition, Sequence[BrokerId] | None],
    alive: Collection[BrokerId],
    *,
    factor_may_change: bool = True,
) -> PartitionPlan:
    """Begin to move partitions to other replicas; None ends a move where it is (KIP-455).

    Args:
        factor_may_change: whether a target may be more or fewer replicas than the partition has,
            or than its current move will leave (KIP-860).
    """
    plan, room = _Plan(state), TopicRoom()
    for name, target in targets.items():
        partition = plan.find(name)
        if isinstance(partition, Rejection):
            outcome: Outcome = partition
        elif target is None:
            outcome = _cancel_move(partition, alive)
        else:
            problem = _target_problem(target, alive)
            if problem is None and not factor_may_change:
                problem = _factor_problem(partition, target)
            outcome = problem or _move(partition, target, alive)
            if isinstance(outcome, PartitionRecord):
                topic = state.topics[name.topic]
                outcome = room.take(topic, partition, outcome) or outcome
        plan.set(name, outcome)
    return plan.finish()


def _target_problem(target: Sequence[BrokerId], alive: Collection[BrokerId]) -> Rejection | None:
    missing = [each for each in target if each not in alive]
    if not target or len(set(target)) != len(target):
        why = f"the replicas {list(target)} must be at least one broker, and each only once"
    elif missing:
        why = f"broker {missing[0]} is not running"
    else:
        return None
    return Rejection(ClusterError.INVALID_REPLICA_ASSIGNMENT, why)


def _factor_problem(partition: PartitionRecord, target: Sequence[BrokerId]) -> Rejection | None:
    if len(target) == len(partition.target):
        return None
    return Rejection(
        ClusterError.INVALID_REPLICATION_FACTOR,
        f"the replicas {list(target)} are not {len(partition.target)}, and this request does not "
        "allow to change the replication factor",
    )


def _move(
    partition: PartitionRecord, target: Sequence[BrokerId], alive: Collection[BrokerId]
) -> Outcome:
    """Begin a move from the replicas before any current move, which the new one replaces."""
    before = [each for each in partition.replicas if each not in partition.adding]
    adding = [each for each in target if each not in before]
    removing = [each for each in before if each not in target]
    new = changed(partition, replicas=[*target, *removing], adding=adding, removing=removing)
    dropped = [each for each in partition.isr if each not in new.replicas]
    kept = _without(new, dropped, alive)
    return _only_in_sync(dropped) if kept is None else _end_move(kept, alive)


def _cancel_move(partition: PartitionRecord, alive: Collection[BrokerId]) -> Outcome:
    if not partition.moving:
        return Rejection(ClusterError.NO_REASSIGNMENT_IN_PROGRESS, "nothing is being moved")
    before = [each for each in partition.replicas if each not in partition.adding]
    new = changed(partition, replicas=before, adding=(), removing=())
    return _without(new, partition.adding, alive) or _only_in_sync(partition.adding)


def _only_in_sync(brokers: Collection[BrokerId]) -> Rejection:
    return Rejection(
        ClusterError.INVALID_REPLICA_ASSIGNMENT,
        f"only {sorted(brokers)} are in sync, and none of them would stay: wait for another",
    )


def _end_move(partition: PartitionRecord, alive: Collection[BrokerId]) -> PartitionRecord:
    """End the move if every new replica is in sync."""
    if not partition.moving or not all(each in partition.isr for each in partition.adding):
        return partition
    new = changed(partition, replicas=partition.target, adding=(), removing=())
    return _without(new, partition.removing, alive) or partition


def _without(
    partition: PartitionRecord, brokers: Collection[BrokerId], alive: Collection[BrokerId]
) -> PartitionRecord | None:
    """Return the partition after these brokers left it: not in sync, and not the leader.

    None if no other broker that is alive has all that is committed.
    """
    isr = [each for each in partition.isr if each not in brokers]
    if not any(each in alive for each in isr):
        return None
    return elect(changed(partition, isr=isr), alive, unclean=False)


class _Plan:
    """Collects changes to partitions, and makes one change per topic of them."""

    def __init__(self, state: ClusterState) -> None:
        self.outcomes: dict[TopicPartition, Outcome] = {}
        self._state = state
        self._changed: dict[str, dict[int, PartitionRecord]] = {}

    def find(
        self, name: TopicPartition, topic_id: TopicId | None = None
    ) -> PartitionRecord | Rejection:
        topic = self._state.topics.get(name.topic)
        if topic is None or not 0 <= name.partition < len(topic.partitions):
            return Rejection(
                ClusterError.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}"
            )
        if topic_id is not None and topic.topic_id != topic_id:
            return Rejection(ClusterError.UNKNOWN_TOPIC_ID, f"{name.topic} was created again")
        return self._changed.get(name.topic, {}).get(
            name.partition, topic.partitions[name.partition]
        )

    def set(self, name: TopicPartition, outcome: Outcome) -> None:
        self.outcomes[name] = outcome
        if isinstance(outcome, PartitionRecord):
            self._changed.setdefault(name.topic, {})[name.partition] = outcome

    def finish(self) -> PartitionPlan:
        plan = PartitionPlan(outcomes=self.outcomes)
        for name, partitions in self._changed.items():
            topic = self._state.topics[name]
            new = tuple(partitions.get(index, old) for index, old in enumerate(topic.partitions))
            if new != topic.partitions:
                plan.changes.append(Put(replace(topic, partitions=new)))
        return plan
