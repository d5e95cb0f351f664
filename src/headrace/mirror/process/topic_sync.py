"""Creates and grows the copies of topics at the target, and keeps their configurations alike."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import structlog

from headrace.client.admin.admin import Admin, ConfigChange, ConfigEntry, NewTopic
from headrace.client.error import BrokerError
from headrace.client.group.group_admin import GroupAdmin
from headrace.client.network.pool import ConnectionPool
from headrace.mirror.config.flow_settings import FlowSettings
from headrace.mirror.process.position import position_group
from headrace.mirror.process.topic_plan import CopiedTopic, TopicPlan, synced_configs
from headrace.model.config_code import ConfigOperation, ConfigResourceType, ConfigSource
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

_log = structlog.get_logger(__name__)
_MOST_TOPICS: Final = 100


class TopicSync:
    """The topics of one flow. One thread, which owns the pools, may use it.

    Args:
        own_configs: what a copy is created with beside the source's configuration.
        may_change: returns the names at the target of those topics that are this flow's to grow
            and fill. Without it all are.

    Attributes:
        created: the topics that the last `refresh` created at the target.
    """

    def __init__(
        self,
        flow: FlowSettings,
        source: ConnectionPool,
        target: ConnectionPool,
        flows: Sequence[FlowSettings] = (),
        own_configs: Callable[[CopiedTopic], Mapping[str, str]] = lambda topic: {},
        may_change: Callable[[Sequence[CopiedTopic]], Collection[str]] | None = None,
    ) -> None:
        self._flow = flow
        self._flows = flows
        self._source = source
        self._target = target
        self._own_configs = own_configs
        self._may_change = may_change
        self._loops: tuple[str, ...] = ()
        self.created: set[str] = set()

    def refresh(self) -> TopicPlan:
        """Find the topics, create and grow them at the target; return what can be copied now.

        Raises:
            ClientError: one of the clusters cannot be reached.
        """
        plan = TopicPlan.of(self._flow, self._source.metadata(), self._flows)
        if plan.loops != self._loops:
            self._loops = plan.loops
            if plan.loops:
                _log.error("mirror_loop", flow=self._flow.name, topics=list(plan.loops))
        self.created = set()
        target = self._target.metadata([each.remote_name for each in plan.topics])
        refused = self._create(plan.missing(target))
        owned: Collection[str] = {each.remote_name for each in plan.topics}
        if self._may_change is not None:
            owned = self._may_change(plan.topics)
        grown = {name: total for name, total in plan.grown(target).items() if name in owned}
        refused |= self._grow(grown)
        return plan.only(set(owned) - refused)

    def sync_configs(self, plan: TopicPlan) -> None:
        """Give the copies the configurations that their topics have at the source by now."""
        topics = plan.topics
        for first in range(0, len(topics), _MOST_TOPICS):
            self._sync_some(topics[first : first + _MOST_TOPICS])

    def _sync_some(self, topics: Sequence[CopiedTopic]) -> None:
        ours = self._configs(self._source, [each.name for each in topics])
        theirs = self._configs(self._target, [each.remote_name for each in topics])
        changes = {}
        for topic in topics:
            if topic.name in ours and topic.remote_name in theirs:
                known = {each.name for each in theirs[topic.remote_name]}
                change = _changes(
                    synced_configs(self._flow, _own(ours[topic.name]), known),
                    synced_configs(self._flow, _own(theirs[topic.remote_name]), known),
                )
                if change:
                    changes[topic.remote_name] = change
        if not changes:
            return
        outcomes = Admin(self._target).alter_configs(ConfigResourceType.TOPIC, changes)
        for name, error in outcomes.items():
            if error is not None:
                self._warn("mirror_config_refused", name, error)

    def _create(self, topics: Sequence[CopiedTopic]) -> set[str]:
        refused: set[str] = set()
        for first in range(0, len(topics), _MOST_TOPICS):
            some = topics[first : first + _MOST_TOPICS]
            configs = self._configs(self._source, [each.name for each in some])
            wanted = {
                each.remote_name: NewTopic(
                    each.remote_name,
                    each.partitions,
                    self._flow.replication_factor,
                    {
                        **synced_configs(self._flow, _own(configs.get(each.name, ()))),
                        **self._own_configs(each),
                    },
                )
                for each in some
            }
            refused |= self._create_all(
                wanted, {each.remote_name: self._own_configs(each) for each in some}
            )
        return refused

    def _create_all(
        self, wanted: Mapping[str, NewTopic], own: Mapping[str, Mapping[str, str]]
    ) -> set[str]:
        admin = Admin(self._target)
        outcomes = admin.create_topics(list(wanted.values()))
        plain = [
            replace(wanted[name], configs=own.get(name, {}))
            for name, error in outcomes.items()
            if error is not None and error.code is ErrorCode.invalid_config
        ]
        for topic in plain:
            self._warn("mirror_config_refused", topic.name, outcomes[topic.name])
        if plain:
            outcomes |= admin.create_topics(plain)
        refused = set()
        for name, error in outcomes.items():
            if error is None:
                _log.info("mirror_topic_created", flow=self._flow.name, topic=name)
                self.created.add(name)
                self._forget(wanted[name])
            elif error.code is not ErrorCode.topic_already_exists:
                refused.add(name)
                _log.error(
                    "mirror_topic_refused", flow=self._flow.name, topic=name, error=str(error)
                )
        return refused

    def _forget(self, topic: NewTopic) -> None:
        """Drop the positions of a topic that was there before and was deleted."""
        partitions = [TopicPartition(topic.name, index) for index in range(topic.partitions)]
        try:
            GroupAdmin(self._target).delete_offsets(position_group(self._flow.name), partitions)
        except BrokerError as error:
            if error.code is not ErrorCode.group_id_not_found:
                raise

    def _grow(self, totals: Mapping[str, int]) -> set[str]:
        if not totals:
            return set()
        refused = set()
        for name, error in Admin(self._target).create_partitions(totals).items():
            if error is None:
                _log.info(
                    "mirror_topic_grown",
                    flow=self._flow.name,
                    topic=name,
                    partitions=totals[name],
                )
            else:
                refused.add(name)
                _log.error(
                    "mirror_topic_refused", flow=self._flow.name, topic=name, error=str(error)
                )
        return refused

    def _configs(self, pool: ConnectionPool, names: Sequence[str]) -> dict[str, list[ConfigEntry]]:
        """Return the configurations of topics, without those that this user may not see."""
        if not names:
            return {}
        found = {}
        described = Admin(pool).describe_configs(ConfigResourceType.TOPIC, names)
        for name, entries in described.items():
            if isinstance(entries, BrokerError):
                self._warn("mirror_config_unknown", name, entries)
            else:
                found[name] = entries
        return found

    def _warn(self, event: str, topic: str, error: BrokerError | None) -> None:
        _log.warning(event, flow=self._flow.name, topic=topic, error=str(error))


def _own(entries: Sequence[ConfigEntry]) -> dict[str, str]:
    return {
        each.name: each.value
        for each in entries
        if each.source is ConfigSource.DYNAMIC_TOPIC_CONFIG and each.value is not None
    }


def _changes(wanted: Mapping[str, str], present: Mapping[str, str]) -> list[ConfigChange]:
    changes = [
        ConfigChange(ConfigOperation.SET, name, value)
        for name, value in sorted(wanted.items())
        if present.get(name) != value
    ]
    gone = sorted(set(present) - set(wanted))
    return changes + [ConfigChange(ConfigOperation.DELETE, name) for name in gone]
