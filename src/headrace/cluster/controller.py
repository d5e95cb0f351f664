"""`Controller`: commands in, durable state out. It ties the pure state to a cluster store.

Every broker has one. Only what `settle` does is the work of a single broker, the one that holds the
controller's term; everything else any of them may do, as all commits compare and set.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from headrace.cluster.acl import Acl, AclFilter
from headrace.cluster.broker import BrokerRecord
from headrace.cluster.config_command import (
    ConfigAlteration,
    alter_broker_configs,
    alter_topic_configs,
    replace_broker_configs,
    replace_topic_configs,
)
from headrace.cluster.credential import ScramCredential
from headrace.cluster.entity import (
    KINDS,
    Entity,
    decode_entity,
    encode_entity,
    entity_path,
)
from headrace.cluster.feature import DEFAULT_FEATURES, Feature
from headrace.cluster.partition_command import (
    IsrProposal,
    PartitionPlan,
    abandon,
    alter_isr,
    elect_leaders,
    reassign,
    settle_topics,
)
from headrace.cluster.quota import QuotaEntity, altered, quota_problem
from headrace.cluster.rejection import ClusterError, Rejection
from headrace.cluster.state import Change, ClusterState, Put, Remove
from headrace.cluster.store import (
    MAX_NODE_BYTES,
    Check,
    ClusterStore,
    Create,
    Delete,
    Update,
    Write,
    node_path,
)
from headrace.cluster.term import CONTROLLER_PATH, TERM_PATH, term_holder, term_writes
from headrace.cluster.topic_command import (
    NewPartitions,
    NewTopic,
    TopicDefaults,
    TopicPlan,
    create_partitions,
    create_topics,
    delete_topics,
)
from headrace.model.error import BrokerIdTaken, StorageError, VersionConflict
from headrace.model.ids import BrokerId, TopicPartition

T = TypeVar("T")

# Losing this often in a row means that somebody writes all the time.
_MAX_TRIES = 10
_COMMIT_BYTES = MAX_NODE_BYTES // 2
_INCARNATIONS = "incarnations"
# What another broker may have made right a moment ago, while the word of it is on its way here.
_MAY_BE_STALE = frozenset(
    {
        ClusterError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        ClusterError.INVALID_PARTITIONS,
        ClusterError.INVALID_REPLICATION_FACTOR,
        ClusterError.INVALID_REPLICA_ASSIGNMENT,
        ClusterError.NO_REASSIGNMENT_IN_PROGRESS,
        ClusterError.PREFERRED_LEADER_NOT_AVAILABLE,
        ClusterError.TOPIC_ALREADY_EXISTS,
        ClusterError.UNKNOWN_TOPIC_ID,
        ClusterError.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


class Controller:
    """The one way in which this broker writes the cluster's state.

    Every command decides on `state`, commits, and only then changes `state`: a crash or a failed
    disk leaves store and memory as they were, or with the whole command done. When another writer
    was faster the state is loaded again and the command decided again. So it is before a command is
    refused for what `state` says, which no commit would compare: a broker that has just joined, or
    a topic that has just been made elsewhere, may not have been heard of yet.

    Thread rule: one thread. `commit` waits for the disk: a broker calls commands off its loop and
    does not read `state` meanwhile, or takes the few milliseconds.
    """

    def __init__(self, store: ClusterStore) -> None:
        """Load everything there is.

        Raises:
            CorruptLog: when a node does not hold what it should.
        """
        self._store = store
        self._versions: dict[str, int] = {}
        self._entities: dict[str, Entity] = {}
        self._changes: list[Change] = []
        self._term: Check | None = None
        self._stale = False
        self.state = ClusterState()
        self._load()
        self._changes.clear()

    def _load(self) -> None:
        """Read everything anew; what differs from before is among the changes to follow."""
        nodes = {node.path: node for kind in KINDS for node in self._store.scan(kind)}
        self._stale = False
        for path in set(self._entities) - set(nodes):
            self._adopt(path, None, -1)
        for path, node in nodes.items():
            self._adopt(path, decode_entity(node), node.version)

    def reload(self) -> None:
        """Read everything again before the next command."""
        self._load()

    def catch_up(self, paths: Iterable[str]) -> None:
        """Others may have changed these nodes: read them again.

        Read anew and not taken from the word of a watch, which may be older than a commit of ours.
        """
        for path in sorted(set(paths)):
            node = self._store.get(path)
            if node is None:
                self._adopt(path, None, -1)
            else:
                self._adopt(path, decode_entity(node), node.version)

    def _adopt(self, path: str, entity: Entity | None, version: int) -> None:
        known = self._entities.get(path)
        if entity is not None:
            self._versions[path] = version
            if entity == known:
                return
            self._entities[path] = entity
            change: Change = Put(entity)
        else:
            self._versions.pop(path, None)
            if self._entities.pop(path, None) is None or known is None:
                return
            change = Remove(known)
        self.state.apply(change)
        self._changes.append(change)

    def take_changes(self) -> list[Change]:
        """What has changed since this was last asked, by whomever; each must be followed."""
        taken, self._changes = self._changes, []
        return taken

    # Topics

    def create_topics(
        self,
        topics: Sequence[NewTopic],
        *,
        defaults: TopicDefaults,
        validate_only: bool = False,
    ) -> TopicPlan:
        return self._run_plan(
            lambda: create_topics(self.state, topics, defaults=defaults), validate_only
        )

    def delete_topics(self, names: Sequence[str]) -> TopicPlan:
        return self._run_plan(lambda: delete_topics(self.state, names), validate_only=False)

    def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> TopicPlan:
        return self._run_plan(lambda: create_partitions(self.state, topics), validate_only)

    def _run_plan(self, decide: Callable[[], TopicPlan], validate_only: bool) -> TopicPlan:
        def changes(plan: TopicPlan) -> Sequence[Change]:
            return [] if validate_only else plan.changes

        return self._run(decide, changes)

    # Configurations

    def replace_topic_configs(
        self, name: str, configs: Mapping[str, str | None], *, validate_only: bool = False
    ) -> Rejection | None:
        return self._run_change(
            lambda: replace_topic_configs(self.state, name, configs), validate_only
        )

    def alter_topic_configs(
        self, name: str, alterations: Sequence[ConfigAlteration], *, validate_only: bool = False
    ) -> Rejection | None:
        return self._run_change(
            lambda: alter_topic_configs(self.state, name, alterations), validate_only
        )

    def replace_broker_configs(
        self,
        broker_id: BrokerId | None,
        configs: Mapping[str, str | None],
        *,
        validate_only: bool = False,
    ) -> Rejection | None:
        return self._run_change(
            lambda: replace_broker_configs(self.state, broker_id, configs), validate_only
        )

    def alter_broker_configs(
        self,
        broker_id: BrokerId | None,
        alterations: Sequence[ConfigAlteration],
        *,
        validate_only: bool = False,
    ) -> Rejection | None:
        return self._run_change(
            lambda: alter_broker_configs(self.state, broker_id, alterations), validate_only
        )

    def _run_change(
        self, decide: Callable[[], Change | Rejection], validate_only: bool
    ) -> Rejection | None:
        def changes(decided: Change | Rejection) -> Sequence[Change]:
            return [] if validate_only or isinstance(decided, Rejection) else [decided]

        decided = self._run(decide, changes)
        return decided if isinstance(decided, Rejection) else None

    # Quotas, credentials, ACLs

    def alter_quota(
        self,
        entity: QuotaEntity,
        values: Mapping[str, float | None],
        *,
        validate_only: bool = False,
    ) -> Rejection | None:
        """Set quotas of one entity; None as a value removes that quota."""
        entity = tuple(sorted(entity, key=lambda pair: pair[0]))
        problem = quota_problem(entity, values)
        if problem is not None or validate_only:
            return problem

        def decide() -> list[Change]:
            current = self.state.quotas.get(entity)
            quota = altered(current, entity, values)
            if quota is not None:
                return [Put(quota)]
            return [] if current is None else [Remove(current)]

        self._run(decide, lambda changes: changes)
        return None

    def put_credential(self, credential: ScramCredential) -> None:
        self._run(lambda: [Put(credential)], lambda changes: changes)

    def remove_credential(self, user: str, mechanism: str) -> bool:
        """Whether there was one."""

        def decide() -> list[Change]:
            known = self.state.credentials.get((user, mechanism))
            return [] if known is None else [Remove(known)]

        return bool(self._run(decide, lambda changes: changes))

    def create_acls(self, acls: Iterable[Acl]) -> None:
        wanted = sorted(set(acls))
        self._run(
            lambda: [Put(acl) for acl in wanted if acl not in self.state.acls],
            lambda changes: changes,
        )

    def delete_acls(self, wanted: AclFilter) -> list[Acl]:
        """Remove every entry the filter accepts, and say which they were."""

        def decide() -> list[Acl]:
            return sorted(acl for acl in self.state.acls if wanted.accepts(acl))

        return self._run(decide, lambda found: [Remove(acl) for acl in found])

    # Partitions

    def alter_isr(self, proposals: Sequence[IsrProposal]) -> PartitionPlan:
        """Who is in sync, from the leaders of partitions. Whoever joins must still be the broker
        that fetched when it is committed (KIP-903)."""

        def joining(plan: PartitionPlan) -> list[Write]:
            return [
                Check(node_path(_INCARNATIONS, str(broker_id)), epoch)
                for proposal in proposals
                if not isinstance(plan.outcomes[proposal.partition], Rejection)
                for broker_id, epoch in proposal.isr.items()
                if epoch >= 0
            ]

        return self._run(
            lambda: alter_isr(self.state, proposals), lambda plan: plan.changes, joining
        )

    def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, *, unclean: bool = False
    ) -> PartitionPlan:
        return self._run(
            lambda: elect_leaders(
                self.state, partitions, self.state.brokers.keys(), unclean=unclean
            ),
            lambda plan: plan.changes,
        )

    def reassign(self, wanted: Mapping[TopicPartition, Sequence[BrokerId] | None]) -> PartitionPlan:
        return self._run(
            lambda: reassign(self.state, wanted, self.state.brokers.keys()),
            lambda plan: plan.changes,
        )

    def settle(self, *, unclean_default: bool = False) -> None:
        """Leaders for partitions whose leaders are gone, and the ends of moves. Only in a term."""
        self._settle(lambda: self.state.brokers.keys(), unclean_default, self._fenced)

    def leave(self, broker_id: BrokerId) -> None:
        """This broker leads nothing any more and is in sync nowhere, where others can be.

        Before it stops, and when it starts, for a former life that could not.
        """
        self._settle(lambda: self.state.brokers.keys() - {broker_id}, False, lambda _: [])

    def replace_dead(self, broker: BrokerRecord) -> None:
        """This registration's process is gone, though its session lives on: as `leave` for it. Not
        for one that was started anew since."""

        def alive() -> Collection[BrokerId]:
            known = self.state.brokers.get(broker.broker_id)
            same = known is not None and known.epoch == broker.epoch
            return self.state.brokers.keys() - ({broker.broker_id} if same else set())

        self._settle(alive, False, lambda _: [])

    def abandon(self, broker_id: BrokerId, partitions: Sequence[TopicPartition]) -> None:
        """This broker cannot serve these any more, because of a disk: others lead, if they can."""
        self._run(
            lambda: abandon(
                self.state, partitions, broker_id, self.state.brokers.keys() - {broker_id}
            ),
            lambda plan: plan.changes,
        )

    def _settle(
        self,
        alive: Callable[[], Collection[BrokerId]],
        unclean_default: bool,
        checks: Callable[[list[Change]], list[Write]],
    ) -> None:
        self._run(
            lambda: settle_topics(self.state, alive(), unclean_default=unclean_default),
            lambda changes: changes,
            checks,
        )

    # The controller's term

    @property
    def in_term(self) -> bool:
        return self._term is not None

    def claim_term(self, broker_id: BrokerId) -> bool:
        """Become the controller if nobody is; whether this broker is it now.

        It may have become so by a commit whose answer was lost. The term is read before its holder:
        if another took over in between, the older term it then has fences it.
        """
        before = self._store.get(TERM_PATH)
        holder = term_holder(self._store.get(CONTROLLER_PATH))
        self._term = None
        if holder == broker_id and before is not None:
            self._term = Check(TERM_PATH, before.version)
        elif holder is None:
            try:
                versions = self._store.commit(term_writes(broker_id, before))
            except VersionConflict:
                return False
            self._term = Check(TERM_PATH, versions[-1])
        return self.in_term

    def end_term(self) -> None:
        """Another is the controller, or nobody knows: nothing that needs a term is done."""
        self._term = None

    def controller_id(self) -> BrokerId | None:
        return term_holder(self._store.get(CONTROLLER_PATH))

    def _fenced(self, changes: list[Change]) -> list[Write]:
        if self._term is None:
            raise VersionConflict("this broker is not the controller any more")
        return [self._term]

    # Brokers and features

    def join(self, broker: BrokerRecord) -> BrokerRecord:
        """Announce a running broker among others, with an epoch higher than any it had before.

        The registration of its own former life is replaced, which a crash may have left.

        Raises:
            BrokerIdTaken: another broker runs under this id.
        """
        self.catch_up([node_path(BrokerRecord.KIND, *broker.key())])
        known = self.state.brokers.get(broker.broker_id)
        if known is not None and known.home != broker.home:
            raise BrokerIdTaken(
                f"broker {broker.broker_id} runs already, with other data: give this one another "
                "node.id"
            )
        self.leave(broker.broker_id)
        path = node_path(_INCARNATIONS, str(broker.broker_id))
        before = self._store.get(path)
        epoch = 0 if before is None else before.version + 1
        registered = replace(broker, epoch=epoch)
        writes: list[Write] = [
            Create(path, b"") if before is None else Update(path, b"", before.version)
        ]
        holder = self._store.get(CONTROLLER_PATH)
        if term_holder(holder) == broker.broker_id:
            writes.append(Delete(CONTROLLER_PATH))
        home = entity_path(registered)
        if self._store.get(home) is not None:
            writes.append(Delete(home))
        writes.append(Create(home, encode_entity(registered), ephemeral=True))
        self._store.commit(writes)
        self._adopt(home, registered, 0)
        return registered

    def register(self, broker: BrokerRecord) -> None:
        """Announce a running broker; it vanishes with this store."""
        self._run(lambda: [Put(broker)], lambda changes: changes)

    def finalize_default_features(self) -> None:
        """Switch on what this version can do, in a cluster that has decided nothing yet."""

        def decide() -> list[Put]:
            known = self.state.features
            return [Put(feature) for feature in DEFAULT_FEATURES if feature.name not in known]

        self._run(decide, lambda changes: changes)

    def finalize_feature(self, feature: Feature) -> None:
        """Set the level of one feature; whether this version can do it is for the caller to say."""
        self._run(lambda: [Put(feature)], lambda changes: changes)

    # The way of every command

    def _run(
        self,
        decide: Callable[[], T],
        changes_of: Callable[[T], Sequence[Change]],
        checks_of: Callable[[T], Sequence[Write]] = lambda _: (),
    ) -> T:
        fresh = self._stale
        if fresh:
            self._load()
        for _ in range(_MAX_TRIES):
            decided = decide()
            if not fresh and _may_be_stale(decided):
                self._load()
                fresh = True
                decided = decide()
            changes = changes_of(decided)
            try:
                self._commit(changes, checks_of(decided) if changes else ())
            except VersionConflict:
                self._load()
                fresh = True
                continue
            except StorageError:
                # It may have been done (rule 5 of the store): look before the next command.
                self._stale = True
                raise
            return decided
        raise VersionConflict(
            f"{_MAX_TRIES} times another controller changed the cluster first: try again"
        )

    def _commit(self, wanted: Sequence[Change], checks: Sequence[Write] = ()) -> None:
        """All at once, or in as few commits as a packet of ZooKeeper's allows."""
        changes = [change for change in wanted if not self._gone_already(change)]
        writes = [self._write(change) for change in changes]
        for first, last in _pieces(writes):
            versions = self._store.commit([*checks, *writes[first:last]])[len(checks) :]
            for change, write, version in zip(
                changes[first:last], writes[first:last], versions, strict=True
            ):
                gone = isinstance(write, Delete)
                self._adopt(write.path, None if gone else change.entity, version)

    def _gone_already(self, change: Change) -> bool:
        return isinstance(change, Remove) and entity_path(change.entity) not in self._versions

    def _write(self, change: Change) -> Write:
        path = entity_path(change.entity)
        version = self._versions.get(path)
        if isinstance(change, Remove):
            return Delete(path, version)
        data = encode_entity(change.entity)
        if version is None:
            return Create(path, data, ephemeral=_ephemeral(change.entity))
        return Update(path, data, version)


def _may_be_stale(decided: object) -> bool:
    """Whether anything is refused for what the cluster's state says."""
    match decided:
        case TopicPlan(outcomes=outcomes) | PartitionPlan(outcomes=outcomes):
            found: Iterable[object] = outcomes.values()
        case _:
            found = (decided,)
    return any(isinstance(each, Rejection) and each.error in _MAY_BE_STALE for each in found)


def _pieces(writes: Sequence[Write]) -> list[tuple[int, int]]:
    """From where to where the writes are small enough for one commit."""
    pieces: list[tuple[int, int]] = []
    first, size = 0, 0
    for number, write in enumerate(writes):
        bytes_ = len(write.data) if isinstance(write, Create | Update) else 0
        if number > first and size + bytes_ > _COMMIT_BYTES:
            pieces.append((first, number))
            first, size = number, 0
        size += bytes_
    return [*pieces, (first, len(writes))] if writes else pieces


def _ephemeral(entity: Entity) -> bool:
    return isinstance(entity, BrokerRecord)
