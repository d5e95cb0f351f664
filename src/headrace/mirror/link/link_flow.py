"""One flow that the target's brokers copy: writes the link, and keeps topics and groups in step.

It copies nothing itself. While it does not run, the brokers go on copying the topics there are.
"""

import time
from collections.abc import Sequence
from threading import Event
from typing import Final

import structlog

from headrace.client.admin.admin import Admin, ConfigChange
from headrace.client.error import BrokerError, ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.mirror.config.flow_settings import FlowSettings
from headrace.mirror.link.group_sync import GroupSync
from headrace.mirror.link.link_config import link_configs
from headrace.mirror.link.mirror_topic import LINK, SOURCE_TOPIC, SOURCE_TOPIC_ID
from headrace.mirror.process.topic_plan import CopiedTopic, TopicPlan
from headrace.mirror.process.topic_sync import TopicSync
from headrace.model.config_code import ConfigOperation, ConfigResourceType
from headrace.model.error import HeadraceError
from headrace.wire.error_code import ErrorCode

_log = structlog.get_logger(__name__)
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 15.0
_TICK_SECONDS: Final = 1.0


class LinkFlow:
    """Keeps a flow in step until it is stopped. One thread runs it."""

    def __init__(
        self,
        settings: FlowSettings,
        source: ClientSettings,
        target: ClientSettings,
        flows: Sequence[FlowSettings],
    ) -> None:
        self.settings = settings
        self._source = source
        self._target = target
        self._flows = flows
        self._foreign: set[str] = set()

    @property
    def name(self) -> str:
        return self.settings.name

    def run(self, stop: Event) -> None:
        """Keep the flow in step until `stop`, whatever is away meanwhile."""
        pause = _FIRST_PAUSE_SECONDS
        while not stop.is_set():
            try:
                with ConnectionPool(self._source) as source, ConnectionPool(self._target) as target:
                    self._write_link(target)
                    self._keep(source, target, stop)
            except HeadraceError as error:
                _log.warning("mirror_flow_waiting", flow=self.name, error=str(error), seconds=pause)
                stop.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _write_link(self, target: ConnectionPool) -> None:
        configs = link_configs(self._source)
        changes = [ConfigChange(ConfigOperation.SET, key, text) for key, text in configs.items()]
        outcome = Admin(target).alter_configs(
            ConfigResourceType.MIRROR_LINK, {self.settings.source: changes}
        )
        error = outcome[self.settings.source]
        if error is None:
            return
        if error.code is ErrorCode.invalid_request:
            raise ClientError(
                f"{self.settings.target} has no mirror links, so it is no Headrace cluster: take "
                f"{self.name}.headrace.copied.by out of the file"
            )
        raise error

    def _keep(self, source: ConnectionPool, target: ConnectionPool, stop: Event) -> None:
        topics = TopicSync(self.settings, source, target, self._flows, self._mirror_configs)
        groups = GroupSync(self.settings, source, target)
        plan = self._mirrors(topics.refresh(), target)
        _log.info("mirror_flow_started", flow=self.name, topics=len(plan.topics))
        due = dict.fromkeys(("refresh.topics", "sync.topic.configs", "sync.group.offsets"), 0.0)
        due["refresh.topics"] = time.monotonic() + (self.settings.seconds("refresh.topics") or 0)
        while not stop.is_set():
            for task, at in due.items():
                seconds = self.settings.seconds(task)
                if seconds is None or time.monotonic() < at:
                    continue
                due[task] = time.monotonic() + seconds
                if task == "refresh.topics":
                    plan = self._mirrors(topics.refresh(), target)
                elif task == "sync.topic.configs":
                    topics.sync_configs(plan)
                else:
                    groups.sync({each.name: each.remote_name for each in plan.topics})
            stop.wait(_TICK_SECONDS)

    def _mirror_configs(self, topic: CopiedTopic) -> dict[str, str]:
        configs = {LINK: self.settings.source}
        if topic.remote_name != topic.name:
            configs[SOURCE_TOPIC] = topic.name
        if topic.topic_id is not None:
            configs[SOURCE_TOPIC_ID] = str(topic.topic_id)
        return configs

    def _mirrors(self, plan: TopicPlan, target: ConnectionPool) -> TopicPlan:
        """Return the part of a plan whose topics at the target are mirrors of this flow's source:
        another topic of the same name, or one that was promoted, is left as it is."""
        names = [each.remote_name for each in plan.topics]
        described = Admin(target).describe_configs(ConfigResourceType.TOPIC, names) if names else {}
        mirrors = set()
        for name, entries in described.items():
            if isinstance(entries, BrokerError):
                raise entries
            if any(e.name == LINK and e.value == self.settings.source for e in entries):
                mirrors.add(name)
            elif name not in self._foreign:
                self._foreign.add(name)
                _log.error(
                    "mirror_topic_refused",
                    flow=self.name,
                    topic=name,
                    error="the target has a topic of this name that is no mirror, or was promoted",
                )
        self._foreign -= mirrors
        return plan.only(mirrors)
