"""Applies the cluster's state to this broker: members, topics, configurations, ACLs, quotas.

The controller's state is the truth; the broker's own objects follow it. `apply` gets the changes of
one command and makes them take effect, whichever broker made them. `apply_all` and `restore_topics`
do the same at the start with everything there is.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar

import structlog

from headrace.broker.auth.authentication import Authentication
from headrace.broker.client_metrics.client_metrics import ClientMetrics
from headrace.broker.client_metrics.subscription import Subscription
from headrace.broker.config.internal_topic import TRANSACTION_STATE
from headrace.broker.config.settings import BrokerSettings
from headrace.broker.guard import Guard
from headrace.broker.loop_turn import LoopTurn
from headrace.broker.membership.finalized_features import FinalizedFeatures
from headrace.broker.membership.topic_applier import TopicApplier
from headrace.broker.mirror.mirror_links import MirrorLinks
from headrace.broker.peer.transaction_client import TransactionClient
from headrace.broker.quota import Quotas
from headrace.broker.replica.fetchers import ReplicaFetchers
from headrace.broker.replica.log_storage import LogStorage
from headrace.broker.replica.replica_roles import ReplicaRoles
from headrace.broker.replica.topic_table import TopicTable
from headrace.cluster.acl import Acl
from headrace.cluster.broker import BrokerConfig, BrokerRecord
from headrace.cluster.controller import Controller
from headrace.cluster.credential import ScramCredential
from headrace.cluster.feature import Feature
from headrace.cluster.quota import ClientQuota
from headrace.cluster.resource_config import ResourceConfig, ResourceKind
from headrace.cluster.state import Change, Put
from headrace.cluster.topic import TopicRecord
from headrace.model.group_config import GROUP_CONFIG
from headrace.model.ids import BrokerId

log = structlog.get_logger(__name__)

Result = TypeVar("Result")


class MetadataTarget(Protocol):
    """The broker, as far as the cluster's state changes it."""

    @property
    def settings(self) -> BrokerSettings: ...

    @property
    def members(self) -> dict[BrokerId, BrokerRecord]: ...

    @property
    def topics(self) -> TopicTable: ...

    @property
    def storage(self) -> LogStorage: ...

    @property
    def roles(self) -> ReplicaRoles: ...

    @property
    def fetchers(self) -> ReplicaFetchers: ...

    @property
    def transaction_client(self) -> TransactionClient: ...

    @property
    def features(self) -> FinalizedFeatures: ...

    @property
    def group_configs(self) -> dict[str, Mapping[str, int]]: ...

    @property
    def client_metrics(self) -> ClientMetrics: ...

    @property
    def mirror_links(self) -> MirrorLinks: ...

    @property
    def quotas(self) -> Quotas: ...

    @property
    def guard(self) -> Guard: ...

    @property
    def authentication(self) -> Authentication: ...

    async def in_thread(self, work: Callable[[], Result]) -> Result:
        """Run blocking work off the loop."""


class MetadataApplier:
    """Makes changes of the cluster's state take effect in this broker.

    Threads: event loop only. `ControllerClient` calls it between two commands, when the
    controller's thread does not change the state.
    """

    def __init__(self, target: MetadataTarget, controller: Controller) -> None:
        self._target = target
        self._controller = controller
        self.topics = TopicApplier(target, self.apply_topic_config)

    # -- at the start

    def apply_all(self) -> None:
        """Apply what was configured while the broker ran before; topics come later."""
        self.apply_broker_configs()
        self.apply_resource_configs()
        self.apply_quotas()
        self.apply_acls()
        self.apply_credentials()

    def apply_members(self) -> None:
        """Adopt the brokers that are registered now."""
        self._target.members.update(self._controller.state.brokers)
        self._target.topics.members_changed()

    async def restore_topics(self) -> None:
        """Serve every topic of the cluster's state.

        Transactions last: those that were decided write their markers into the others at once.
        """
        # Those that were opened, or recovered, before have the configuration of that moment.
        for directory in self._target.storage.directories:
            directory.configure()
        topics, turn = self._controller.state.topics.values(), LoopTurn()
        for topic in sorted(topics, key=lambda topic: topic.name == TRANSACTION_STATE):
            await self.topics.apply(topic)
            await turn.pause_if_over()
        await self.topics.settle()

    async def prepare_logs(self) -> None:
        """Rename the logs of topics that were deleted, or moved away, while the broker was down,
        and open the others: from the registration on, serving a topic waits for no disk."""
        target, topics = self._target, self._controller.state.topics
        await target.in_thread(lambda: target.storage.set_strays_aside(topics))
        await target.in_thread(lambda: target.storage.open_logs(topics))

    # -- while the broker runs

    async def apply(self, changes: list[Change]) -> None:
        """Make changes of the cluster's state take effect, whichever broker made them.

        It does not wait for the disk: `TopicApplier` makes the logs of new topics meanwhile. A
        failover changes every topic, and others get their turn on the loop in between. Topics of
        transactions last: those that were decided write their markers into the others.
        """
        kinds: set[type] = set()
        topics: dict[str, Change] = {}
        for change in changes:
            match change.entity:
                case BrokerRecord() as member:
                    self._apply_member(member, running=isinstance(change, Put))
                case TopicRecord() as topic:
                    topics[topic.name] = change  # the last one counts
                case other:
                    kinds.add(type(other))
        for kind in kinds:
            _APPLIERS[kind](self)
        await self._apply_topics(topics.values())

    async def _apply_topics(self, changes: Iterable[Change]) -> None:
        records: list[TopicRecord] = []
        removed: list[TopicRecord] = []
        for change in changes:
            assert isinstance(change.entity, TopicRecord)
            (records if isinstance(change, Put) else removed).append(change.entity)
        turn = LoopTurn()
        if removed:
            await self.topics.remove(removed)
        for record in sorted(records, key=lambda record: record.name == TRANSACTION_STATE):
            unknown = self._target.topics.by_name(record.name) is None
            await self.topics.apply(record)
            if unknown and self._target.topics.by_name(record.name) is not None:
                # At the start: its logs were opened before this change.
                self.apply_topic_config(record.name)
            await turn.pause_if_over()

    def _apply_member(self, member: BrokerRecord, *, running: bool) -> None:
        target, broker_id = self._target, member.broker_id
        if broker_id == target.settings.node_id:
            target.roles.holder_epoch = member.epoch if running else None
        if running:
            target.members[broker_id] = member
        else:
            target.members.pop(broker_id, None)
            target.transaction_client.forget(broker_id)
            target.fetchers.reconnect(broker_id)
        target.topics.members_changed()

    # -- one kind of entity each

    def apply_broker_configs(self) -> None:
        """Apply dynamic configurations: those of all brokers, then this broker's own (KIP-226)."""
        target = self._target
        target.settings.set_dynamic(self._controller.state.dynamic_configs(target.settings.node_id))
        for directory in target.storage.directories:
            directory.configure()
        # A topic's settings that have no value of their own follow the broker's.
        for partition in target.topics.partitions():
            partition.apply_config()

    def apply_topic_config(self, name: str) -> None:
        target = self._target
        for directory in target.storage.directories:
            directory.configure(name)
        topic = target.topics.by_name(name)
        for partition in () if topic is None else topic.partitions:
            if partition is not None:
                partition.apply_config()
        target.mirror_links.changed()

    def apply_resource_configs(self) -> None:
        """Apply the keys of single groups, which count from a member's next heartbeat on, the
        subscriptions to clients' metrics, and the mirror links."""
        own = self._target.group_configs
        own.clear()
        subscriptions: list[Subscription] = []
        links: dict[str, Mapping[str, str]] = {}
        for (kind, name), config in self._controller.state.resource_configs.items():
            problems = kind.table.problems(config.configs)
            if problems:
                log.error("configuration_skipped", kind=kind.value, name=name, reason=problems)
            elif kind is ResourceKind.CLIENT_METRICS:
                subscriptions.append(Subscription.of(config.configs))
            elif kind is ResourceKind.MIRROR_LINK:
                links[name] = config.configs
            else:
                values = GROUP_CONFIG.parse(config.configs).items()
                own[name] = {key: value for key, value in values if isinstance(value, int)}
        self._target.client_metrics.set_subscriptions(subscriptions)
        self._target.mirror_links.set_links(links)

    def apply_features(self) -> None:
        self._target.features.set(self._controller.state.features.values())

    def apply_acls(self) -> None:
        authorizer = self._target.guard.authorizer
        if authorizer is not None:
            authorizer.set_acls(self._controller.state.acls)

    def apply_credentials(self) -> None:
        self._target.authentication.set_credentials(dict(self._controller.state.credentials))

    def apply_quotas(self) -> None:
        quotas = self._controller.state.quotas.values()
        self._target.quotas.set_limits({quota.entity: dict(quota.values) for quota in quotas})


_APPLIERS: Mapping[type, Callable[[MetadataApplier], None]] = {
    Acl: MetadataApplier.apply_acls,
    BrokerConfig: MetadataApplier.apply_broker_configs,
    ClientQuota: MetadataApplier.apply_quotas,
    Feature: MetadataApplier.apply_features,
    ResourceConfig: MetadataApplier.apply_resource_configs,
    ScramCredential: MetadataApplier.apply_credentials,
}
