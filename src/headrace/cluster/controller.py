"""`Controller`: every command that changes the cluster's state.

Every broker has one. Only `settle` is the work of a single broker, the one that holds the
controller's term. Every broker may run the other commands, since all commits compare and set.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from headrace.cluster.acl import Acl, AclFilter
from headrace.cluster.broker import (
    BrokerRecord,
    ChooseDirectories,
    incarnation_data,
    incarnation_path,
    registered_directories,
)
from headrace.cluster.command_runner import CommandRunner
from headrace.cluster.config_command import (
    CheckValues,
    ConfigAlteration,
    alter_broker_configs,
    alter_resource_configs,
    alter_topic_configs,
    replace_broker_configs,
    replace_topic_configs,
)
from headrace.cluster.credential import ScramCredential
from headrace.cluster.entity import (
    encode_entity,
    entity_path,
)
from headrace.cluster.entity_size import entity_problem
from headrace.cluster.feature import DEFAULT_FEATURES, Feature
from headrace.cluster.partition_command import (
    IsrProposal,
    PartitionPlan,
    abandon,
    alter_isr,
    drop_from_isr,
    elect_leaders,
    reassign,
    settle_topics,
    topic_still_held,
)
from headrace.cluster.quota import ClientQuota, QuotaEntity, altered, quota_problem
from headrace.cluster.rejection import ClusterError, Rejection
from headrace.cluster.resource_config import ResourceKind
from headrace.cluster.settled_topics import SettledTopics
from headrace.cluster.state import Change, Put, Remove
from headrace.cluster.store import (
    CheckNode,
    ClusterStore,
    CreateNode,
    DeleteNode,
    UpdateNode,
    Write,
    node_path,
)
from headrace.cluster.term import CONTROLLER_PATH, TERM_PATH, term_holder, term_writes
from headrace.cluster.topic import TopicRecord
from headrace.cluster.topic_command import (
    NewPartitions,
    TopicDefaults,
    TopicPlan,
    TopicToCreate,
    create_partitions,
    create_topics,
    delete_topics,
)
from headrace.model.error import BrokerIdTaken, StorageError, VersionConflict
from headrace.model.ids import BrokerId, TopicId, TopicPartition

T = TypeVar("T")


class Controller:
    """The one way in which this broker writes the cluster's state (see `CommandRunner`).

    Thread rule: one thread. A commit waits for the disk: a broker calls commands off its loop. For
    `state`, see the thread rule of `ClusterState`.
    """

    def __init__(self, store: ClusterStore) -> None:
        """Load everything there is.

        Raises:
            CorruptLog: when a node does not hold what it should.
        """
        self._store = store
        self._runner = CommandRunner(store)
        self._term: CheckNode | None = None
        self._settled = SettledTopics()
        self.state = self._runner.state

    def reload(self) -> None:
        """Read everything again before the next command."""
        self._runner.load()

    def catch_up(self, paths: Iterable[str]) -> None:
        """Read nodes again that other brokers may have changed."""
        self._runner.catch_up(paths)

    def read_topics(self, names: Collection[str]) -> dict[str, TopicRecord]:
        """Read these topics again, and return those that exist."""
        self.catch_up(node_path(TopicRecord.KIND, each) for each in names)
        topics = self.state.topics
        return {each: topics[each] for each in names if each in topics}

    def take_changes(self) -> list[Change]:
        """Return the changes since the last call, of this and of other brokers."""
        return self._runner.take_changes()

    # Topics

    def create_topics(
        self,
        topics: Sequence[TopicToCreate],
        *,
        defaults: TopicDefaults,
        validate_only: bool = False,
    ) -> TopicPlan:
        return self._run_plan(
            lambda: create_topics(self.state, topics, defaults=defaults), validate_only
        )

    def delete_topics(
        self, names: Sequence[str], *, ids: Mapping[str, TopicId] | None = None
    ) -> TopicPlan:
        """Delete topics; `ids` by name, of those that were asked for by id."""
        return self._run_plan(
            lambda: delete_topics(self.state, names, ids=ids or {}), validate_only=False
        )

    def create_partitions(
        self, topics: Sequence[NewPartitions], *, validate_only: bool = False
    ) -> TopicPlan:
        return self._run_plan(lambda: create_partitions(self.state, topics), validate_only)

    def _run_plan(self, decide: Callable[[], TopicPlan], validate_only: bool) -> TopicPlan:
        def changes(plan: TopicPlan) -> Sequence[Change]:
            return [] if validate_only else plan.changes

        return self._runner.run(decide, changes)

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

    def alter_resource_configs(
        self,
        kind: ResourceKind,
        name: str,
        alterations: Sequence[ConfigAlteration],
        *,
        check: CheckValues,
        replacing: bool = False,
        validate_only: bool = False,
    ) -> Rejection | None:
        return self._run_change(
            lambda: alter_resource_configs(
                self.state, kind, name, alterations, check=check, replacing=replacing
            ),
            validate_only,
        )

    def _run_change(
        self, decide: Callable[[], Change | Rejection], validate_only: bool
    ) -> Rejection | None:
        def changes(decided: Change | Rejection) -> Sequence[Change]:
            return [] if validate_only or isinstance(decided, Rejection) else [decided]

        decided = self._runner.run(decide, changes)
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
        problem = quota_problem(entity, values) or entity_problem(ClientQuota(entity=entity))
        if problem is not None or validate_only:
            return problem

        def decide() -> list[Change]:
            current = self.state.quotas.get(entity)
            quota = altered(current, entity, values)
            if quota is not None:
                return [Put(quota)]
            return [] if current is None else [Remove(current)]

        self._runner.run(decide, lambda changes: changes)
        return None

    def put_credential(self, credential: ScramCredential) -> None:
        self._runner.run(lambda: [Put(credential)], lambda changes: changes)

    def remove_credential(self, user: str, mechanism: str) -> bool:
        """Remove a credential and return whether there was one."""

        def decide() -> list[Change]:
            known = self.state.credentials.get((user, mechanism))
            return [] if known is None else [Remove(known)]

        return bool(self._runner.run(decide, lambda changes: changes))

    def create_acls(self, acls: Iterable[Acl]) -> None:
        entries = sorted(set(acls))
        self._runner.run(
            lambda: [Put(acl) for acl in entries if acl not in self.state.acls],
            lambda changes: changes,
        )

    def delete_acls(self, filter_: AclFilter) -> list[Acl]:
        """Remove and return every entry that the filter accepts."""

        def decide() -> list[Acl]:
            return sorted(acl for acl in self.state.acls if filter_.accepts(acl))

        return self._runner.run(decide, lambda acls: [Remove(acl) for acl in acls])

    # Partitions

    def alter_isr(self, proposals: Sequence[IsrProposal]) -> PartitionPlan:
        """Change who is in sync, as the leaders of partitions ask for.

        A replica that joins must be the same start of its broker that fetched (KIP-903).
        """

        def joining(plan: PartitionPlan) -> list[Write]:
            # One check per broker: it may join thousands of partitions at once, after its start.
            starts = dict.fromkeys(
                (broker_id, epoch)
                for proposal in proposals
                if not isinstance(plan.outcomes[proposal.partition], Rejection)
                for broker_id, epoch in proposal.isr.items()
                if epoch >= 0
            )
            return [CheckNode(incarnation_path(broker_id), epoch) for broker_id, epoch in starts]

        return self._runner.run(
            lambda: alter_isr(self.state, proposals),
            lambda plan: plan.changes,
            joining,
            PartitionPlan.leave_out,
        )

    def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, *, unclean: bool = False
    ) -> PartitionPlan:
        return self._runner.run(
            lambda: elect_leaders(
                self.state, partitions, self.state.brokers.keys(), unclean=unclean
            ),
            lambda plan: plan.changes,
            leave_out=PartitionPlan.leave_out,
        )

    def reassign(
        self,
        targets: Mapping[TopicPartition, Sequence[BrokerId] | None],
        *,
        factor_may_change: bool = True,
    ) -> PartitionPlan:
        return self._runner.run(
            lambda: reassign(
                self.state,
                targets,
                self.state.brokers.keys(),
                factor_may_change=factor_may_change,
            ),
            lambda plan: plan.changes,
            leave_out=PartitionPlan.leave_out,
        )

    def settle(self, *, unclean_default: bool = False) -> None:
        """Elect leaders where they are gone, and end finished reassignments. Only in a term.

        A topic whose record has become too large for the store stays as it is, and is logged.
        """
        self._runner.run(
            lambda: self._settled.changes(
                self.state, self.state.brokers.keys(), unclean_default=unclean_default
            ),
            lambda changes: changes,
            self._fenced,
            _only_log,
        )

    def leave(self, broker_id: BrokerId) -> None:
        """Move leadership and in-sync membership away from this broker, where others can be.

        It does so before it stops, and when it starts, in case its last run could not.
        """
        self._settle(lambda: self.state.brokers.keys() - {broker_id})

    def remove_ended_broker(self, broker: BrokerRecord) -> None:
        """Do what `leave` does for a broker whose process has ended, before its session ends.

        A broker that was started again since has another epoch, and stays.
        """

        def alive() -> Collection[BrokerId]:
            known = self.state.brokers.get(broker.broker_id)
            same = known is not None and known.epoch == broker.epoch
            return self.state.brokers.keys() - ({broker.broker_id} if same else set())

        self._settle(alive)

    def abandon(self, broker_id: BrokerId, partitions: Sequence[TopicPartition]) -> None:
        """Let other brokers lead partitions that this one cannot serve after a disk failure."""
        self._runner.run(
            lambda: abandon(
                self.state, partitions, broker_id, self.state.brokers.keys() - {broker_id}
            ),
            lambda plan: plan.changes,
            leave_out=PartitionPlan.leave_out,
        )

    def drop_from_isr(self, broker_id: BrokerId, partitions: Sequence[TopicPartition]) -> None:
        """Remove a broker from the ISR of partitions whose logs it lost, unless it is the last."""
        self._runner.run(
            lambda: drop_from_isr(self.state, partitions, broker_id), lambda plan: plan.changes
        )

    def _settle(self, alive: Callable[[], Collection[BrokerId]]) -> None:
        self._runner.run(
            lambda: settle_topics(self.state, alive()),
            lambda changes: changes,
            leave_out=_only_log,
        )

    # The controller's term

    @property
    def in_term(self) -> bool:
        return self._term is not None

    def claim_term(self, broker_id: BrokerId) -> bool:
        """Become the controller if there is none; return whether this broker is it now.

        It may have become the controller by a commit whose reply was lost. The term is read before
        its holder: if another broker took over in between, the older term fences this one.
        """
        before = self._store.get(TERM_PATH)
        holder = term_holder(self._store.get(CONTROLLER_PATH))
        self._term = None
        if holder == broker_id and before is not None:
            self._term = CheckNode(TERM_PATH, before.version)
        elif holder is None:
            try:
                versions = self._store.commit(term_writes(broker_id, before))
            except VersionConflict:
                return False
            self._term = CheckNode(TERM_PATH, versions[-1])
        return self.in_term

    def controller_id(self) -> BrokerId | None:
        return term_holder(self._store.get(CONTROLLER_PATH))

    def _fenced(self, changes: list[Change]) -> list[Write]:
        if self._term is None:
            raise VersionConflict("this broker is not the controller any more")
        return [self._term]

    # Brokers and features

    def join(
        self, broker: BrokerRecord, directories: ChooseDirectories | None = None
    ) -> BrokerRecord:
        """Announce a running broker among others, with an epoch higher than any it had before.

        Replaces the registration that a crash of its last run may have left.

        Args:
            directories: is called once the id is known to be free.

        Raises:
            BrokerIdTaken: another broker runs under this id.
            StorageError: this broker's former process cannot be removed from a topic whose record
                is too large for the store, and it must not lead twice in one leader epoch.
        """
        self.catch_up([node_path(BrokerRecord.KIND, *broker.key())])
        known = self.state.brokers.get(broker.broker_id)
        if known is not None and known.home != broker.home:
            raise BrokerIdTaken(
                f"broker {broker.broker_id} runs already, with other data: give this one another "
                "node.id"
            )
        path = incarnation_path(broker.broker_id)
        before = self._store.get(path)
        if directories is not None:
            broker = replace(broker, directories=directories(registered_directories(before)))
        self.leave(broker.broker_id)
        full = topic_still_held(self.state, broker.broker_id)
        if full is not None:
            raise StorageError(
                f"broker {broker.broker_id} cannot start: the record of topic {full!r} is full; "
                "shorten its configuration through another broker, or delete it"
            )
        epoch = 0 if before is None else before.version + 1
        registered = replace(broker, epoch=epoch)
        data = incarnation_data(broker.directories)
        writes: list[Write] = [
            CreateNode(path, data) if before is None else UpdateNode(path, data, before.version)
        ]
        if self.controller_id() == broker.broker_id:
            writes.append(DeleteNode(CONTROLLER_PATH))
        home = entity_path(registered)
        if self._store.get(home) is not None:
            writes.append(DeleteNode(home))
        writes.append(CreateNode(home, encode_entity(registered), ephemeral=True))
        self._store.commit(writes)
        self._runner.adopt(home, registered, 0)
        return registered

    def register(self, broker: BrokerRecord) -> None:
        """Announce a running broker; it vanishes with this store."""
        self._runner.run(lambda: [Put(broker)], lambda changes: changes)

    def unregister(self, broker_id: BrokerId) -> Rejection | None:
        """Remove what is left of a broker that does not run any more: its configuration."""
        path = incarnation_path(broker_id)

        def decide() -> list[Change] | Rejection:
            if broker_id in self.state.brokers:
                return Rejection(
                    ClusterError.INVALID_REQUEST, f"broker {broker_id} is running: stop it first"
                )
            known = self.state.broker_configs.get(broker_id)
            if known is None and self._store.get(path) is None:
                return Rejection(
                    ClusterError.BROKER_ID_NOT_REGISTERED,
                    f"there has been no broker {broker_id} in this cluster",
                )
            return [] if known is None else [Remove(known)]

        def changes(decided: list[Change] | Rejection) -> Sequence[Change]:
            return [] if isinstance(decided, Rejection) else decided

        decided = self._runner.run(decide, changes)
        return decided if isinstance(decided, Rejection) else None

    def finalize_default_features(self) -> None:
        """Set every feature that has no level yet to what this version supports."""

        def decide() -> list[Put]:
            known = self.state.features
            return [Put(feature) for feature in DEFAULT_FEATURES if feature.name not in known]

        self._runner.run(decide, lambda changes: changes)

    def finalize_feature(self, feature: Feature) -> None:
        """Set the level of one feature; the caller checks that this version supports it."""
        self._runner.run(lambda: [Put(feature)], lambda changes: changes)


def _only_log(changes: list[Change], change: Change, why: str) -> None:
    """Leave a change out; the runner has logged it."""
