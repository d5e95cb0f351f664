"""The cluster's state in memory, and the changes it is made of.

Theory of operation
-------------------
The state is a set of entities (topics, brokers, configurations, quotas, credentials, ACLs,
features). A command (`topic_command`, `config_command`, ...) reads the state and returns the
changes it needs, or a rejection; it changes nothing. The controller writes the changes to the
cluster store and, once they are durable, applies them here. A broker that only watches the store
applies what it reads there. So every broker builds its state from the same changes.

Rules
-----
Rule 1: only `apply` changes the state, one change at a time, and it never fails on a change that a
        command made for this state.
Rule 2: applying a change twice is the same as applying it once: a watch may report it twice.
Rule 3: nothing costs more than the change itself. A dictionary is never copied: with 10,000 topics
        that would make creating them quadratic. Entities are frozen; the state is not.
Rule 4: `topics_version` is another number after every change to a topic, and only then.

Thread rule: one thread applies. Others may look up single entities, and may copy a collection with
`list`, `dict` or `sorted`, which is one step for the interpreter; they must not iterate over one
that changes meanwhile.
"""

from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from headrace.cluster.acl import Acl
from headrace.cluster.broker import BrokerConfig, BrokerRecord
from headrace.cluster.credential import ScramCredential
from headrace.cluster.entity import Entity
from headrace.cluster.feature import Feature
from headrace.cluster.quota import ClientQuota, QuotaEntity
from headrace.cluster.resource_config import ResourceConfig, ResourceKind
from headrace.cluster.topic import TopicRecord
from headrace.model.ids import BrokerId

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Put:
    """Create the entity, or replace it."""

    entity: Entity


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete the entity."""

    entity: Entity


Change = Put | Remove


class ClusterState:
    """The entities of the cluster."""

    def __init__(self) -> None:
        self.topics: dict[str, TopicRecord] = {}
        self.brokers: dict[BrokerId, BrokerRecord] = {}
        self.broker_configs: dict[BrokerId | None, BrokerConfig] = {}
        self.resource_configs: dict[tuple[ResourceKind, str], ResourceConfig] = {}
        self.quotas: dict[QuotaEntity, ClientQuota] = {}
        self.credentials: dict[tuple[str, str], ScramCredential] = {}
        self.acls: set[Acl] = set()
        self.features: dict[str, Feature] = {}
        self.topics_version = 0
        self._name_by_id: dict[UUID, str] = {}
        self._names_by_metric: dict[str, set[str]] = {}

    def topic_by_id(self, topic_id: UUID) -> TopicRecord | None:
        name = self._name_by_id.get(topic_id)
        return None if name is None else self.topics[name]

    def colliding_topic(self, name: str) -> str | None:
        """Return another topic whose metrics would have the same name, as `.` becomes `_` there."""
        others = self._names_by_metric.get(metric_name(name), set()) - {name}
        return min(others) if others else None

    def racks(self) -> dict[BrokerId, str | None]:
        return {broker.broker_id: broker.rack for broker in self.brokers.values()}

    def dynamic_configs(self, broker_id: BrokerId) -> dict[str, str]:
        """Return what was set while a broker runs: for all brokers, then for this one (KIP-226)."""
        texts: dict[str, str] = {}
        for configured in (None, broker_id):
            if configured in self.broker_configs:
                texts.update(self.broker_configs[configured].configs)
        return texts

    def apply(self, change: Change) -> None:
        removed = isinstance(change, Remove)
        match change.entity:
            case TopicRecord() as topic:
                self._apply_topic(topic, removed=removed)
            case BrokerRecord(broker_id=broker_id) as broker:
                _set(self.brokers, broker_id, broker, removed=removed)
            case BrokerConfig(broker_id=configured) as config:
                _set(self.broker_configs, configured, config, removed=removed)
            case ResourceConfig(kind=kind, name=resource) as resource_config:
                _set(self.resource_configs, (kind, resource), resource_config, removed=removed)
            case ClientQuota(entity=entity) as quota:
                _set(self.quotas, entity, quota, removed=removed)
            case ScramCredential(user=user, mechanism=mechanism) as credential:
                _set(self.credentials, (user, mechanism), credential, removed=removed)
            case Feature(name=name) as feature:
                _set(self.features, name, feature, removed=removed)
            case Acl() as acl:
                (self.acls.discard if removed else self.acls.add)(acl)

    def _apply_topic(self, topic: TopicRecord, *, removed: bool) -> None:
        self.topics_version += 1
        known = self.topics.get(topic.name)
        if known is not None and (removed or known.topic_id != topic.topic_id):
            # Deleted and created again may arrive as one change (rule 6 of the store).
            self._name_by_id.pop(known.topic_id, None)
        alike = self._names_by_metric.setdefault(metric_name(topic.name), set())
        if removed:
            self.topics.pop(topic.name, None)
            alike.discard(topic.name)
            if not alike:
                del self._names_by_metric[metric_name(topic.name)]
            return
        self.topics[topic.name] = topic
        self._name_by_id[topic.topic_id] = topic.name
        alike.add(topic.name)


def metric_name(name: str) -> str:
    return name.replace(".", "_")


def _set(mapping: dict[K, V], key: K, value: V, *, removed: bool) -> None:
    if removed:
        mapping.pop(key, None)
    else:
        mapping[key] = value
