"""`Controller`: commands in, durable state out. It ties the pure state to a cluster store."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from headrace.cluster.acl import Acl, AclFilter
from headrace.cluster.broker import Broker
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
from headrace.cluster.quota import QuotaEntity, altered, quota_problem
from headrace.cluster.rejection import Rejection
from headrace.cluster.state import Change, ClusterState, Put, Remove
from headrace.cluster.store import ClusterStore, Create, Delete, Update, Write
from headrace.cluster.topic_command import (
    NewPartitions,
    NewTopic,
    TopicDefaults,
    TopicPlan,
    create_partitions,
    create_topics,
    delete_topics,
)
from headrace.model.error import VersionConflict
from headrace.model.ids import BrokerId

T = TypeVar("T")

# Losing this often in a row means that somebody writes all the time.
_MAX_TRIES = 10


class Controller:
    """The one writer of the cluster's state.

    Every command decides on `state`, commits, and only then changes `state`: a crash or a failed
    disk leaves store and memory as they were, or with the whole command done. When another writer
    was faster the state is loaded again and the command decided again.

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
        self.state = ClusterState()
        self._load()

    def _load(self) -> None:
        state = ClusterState()
        versions: dict[str, int] = {}
        for kind in KINDS:
            for node in self._store.scan(kind):
                state.apply(Put(decode_entity(node)))
                versions[node.path] = node.version
        state.topics_version = self.state.topics_version + 1
        self.state, self._versions = state, versions

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

    # Brokers and features

    def register(self, broker: Broker) -> None:
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

    def _run(self, decide: Callable[[], T], changes_of: Callable[[T], Sequence[Change]]) -> T:
        for _ in range(_MAX_TRIES):
            decided = decide()
            changes = changes_of(decided)
            try:
                self._commit(changes)
            except VersionConflict:
                self._load()
                continue
            return decided
        raise VersionConflict(
            f"{_MAX_TRIES} times another controller changed the cluster first: try again"
        )

    def _commit(self, wanted: Sequence[Change]) -> None:
        changes = [change for change in wanted if not self._gone_already(change)]
        if not changes:
            return
        writes = [self._write(change) for change in changes]
        versions = self._store.commit(writes)
        for change, write, version in zip(changes, writes, versions, strict=True):
            self.state.apply(change)
            if isinstance(write, Delete):
                self._versions.pop(write.path, None)
            else:
                self._versions[write.path] = version

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


def _ephemeral(entity: Entity) -> bool:
    return isinstance(entity, Broker)
