"""One flow that the target's brokers copy: writes the link, and keeps topics and groups in step.

It copies nothing itself. While it does not run, the brokers go on copying the topics there are.
"""

import time
from collections.abc import Mapping, Sequence
from threading import Event
from typing import Final
from uuid import UUID

import structlog

from headrace.client.admin.admin import Admin, ConfigChange
from headrace.client.error import BrokerError, ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.mirror.config.flow_settings import FlowSettings
from headrace.mirror.link.acl_sync import AclSync
from headrace.mirror.link.group_sync import GroupSync
from headrace.mirror.link.link_config import link_configs
from headrace.mirror.link.mirror_topic import COPIED, LINK, SOURCE_TOPIC, SOURCE_TOPIC_ID, STATE
from headrace.mirror.process.topic_plan import CopiedTopic, is_copied
from headrace.mirror.process.topic_sync import TopicSync
from headrace.model.config_code import ConfigOperation, ConfigResourceType
from headrace.model.error import HeadraceError
from headrace.model.mirror_link_config import MIRROR_LINK_CONFIG
from headrace.wire.error_code import ErrorCode

_log = structlog.get_logger(__name__)
_FIRST_PAUSE_SECONDS: Final = 0.5
_LONGEST_PAUSE_SECONDS: Final = 15.0
_TICK_SECONDS: Final = 1.0
# Where schema registries keep their schemas by default.
_SCHEMAS: Final = "_schemas"
_TASKS: Final = ("refresh.topics", "sync.topic.configs", "sync.topic.acls", "sync.group.offsets")


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
        self._pause_seconds = _FIRST_PAUSE_SECONDS

    @property
    def name(self) -> str:
        return self.settings.name

    def run(self, stop: Event) -> None:
        """Keep the flow in step until `stop`, whatever is away meanwhile."""
        while not stop.is_set():
            try:
                with ConnectionPool(self._source) as source, ConnectionPool(self._target) as target:
                    self._write_link(target)
                    self._keep(source, target, stop)
            except HeadraceError as error:
                _log.warning(
                    "mirror_flow_waiting",
                    flow=self.name,
                    error=str(error),
                    seconds=self._pause_seconds,
                )
            except Exception as error:  # noqa: BLE001 - else the process goes on as if it ran
                _log.error("mirror_flow_failed", flow=self.name, exc_info=error)
            else:
                return
            stop.wait(self._pause_seconds)
            self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)

    def _write_link(self, target: ConnectionPool) -> None:
        configs = link_configs(self._source)
        changes = [ConfigChange(ConfigOperation.SET, key, text) for key, text in configs.items()]
        gone = (key.name for key in MIRROR_LINK_CONFIG if key.name not in configs)
        changes += [ConfigChange(ConfigOperation.DELETE, name) for name in gone]
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
        topics = TopicSync(
            self.settings,
            source,
            target,
            self._flows,
            self._mirror_configs,
            lambda wanted: self._mirrors(target, wanted),
        )
        acls = AclSync(self.settings, source, target)
        groups = GroupSync(self.settings, source, target)
        plan = topics.refresh()
        _log.info("mirror_flow_started", flow=self.name, topics=len(plan.topics))
        schemas = source.metadata([_SCHEMAS]).topics.get(_SCHEMAS)
        if schemas is not None and schemas.error is None and not is_copied(self.settings, _SCHEMAS):
            _log.warning(
                "mirror_schemas_not_copied",
                flow=self.name,
                hint=f"a registry keeps schemas in {_SCHEMAS}: add it to {self.name}.topics",
            )
        due = dict.fromkeys(_TASKS, 0.0)
        due["refresh.topics"] = time.monotonic() + (self.settings.seconds("refresh.topics") or 0)
        while not stop.is_set():
            for task, at in due.items():
                seconds = self.settings.seconds(task)
                if seconds is None or time.monotonic() < at:
                    continue
                due[task] = time.monotonic() + seconds
                if task == "refresh.topics":
                    known = {each.remote_name for each in plan.topics}
                    plan = topics.refresh()
                    if topics.created or any(each.remote_name not in known for each in plan.topics):
                        # What the source denies must not wait while records are copied.
                        due["sync.topic.acls"] = 0.0
                    continue
                # Topics may have been promoted since.
                plan = plan.only(self._mirrors(target, plan.topics))
                by_source = {each.name: each.remote_name for each in plan.topics}
                if task == "sync.topic.configs":
                    topics.sync_configs(plan)
                elif task == "sync.topic.acls":
                    acls.sync(by_source)
                else:
                    groups.sync(by_source)
            self._pause_seconds = _FIRST_PAUSE_SECONDS
            stop.wait(_TICK_SECONDS)

    def _mirror_configs(self, topic: CopiedTopic) -> dict[str, str]:
        configs = {LINK: self.settings.source}
        if topic.remote_name != topic.name:
            configs[SOURCE_TOPIC] = topic.name
        if topic.topic_id is not None:
            configs[SOURCE_TOPIC_ID] = str(topic.topic_id)
        return configs

    def _mirrors(self, target: ConnectionPool, topics: Sequence[CopiedTopic]) -> set[str]:
        """Return the names at the target of those topics whose mirror there is this flow's, and
        copied: another topic of the same name, or one that was promoted, is left as it is."""
        mirrors: set[str] = set()
        wanted = {each.remote_name: each for each in topics}
        described = (
            Admin(target).describe_configs(ConfigResourceType.TOPIC, list(wanted)) if wanted else {}
        )
        for name, entries in described.items():
            if name not in wanted:
                continue
            if isinstance(entries, BrokerError):
                self._refuse(name, str(entries))
                continue
            values = {each.name: each.value for each in entries}
            problem = why_no_mirror(values, self.settings.source, wanted[name])
            if problem is not None:
                self._refuse(name, problem)
            elif values.get(STATE) == COPIED:
                mirrors.add(name)
        self._foreign -= mirrors
        return mirrors

    def _refuse(self, topic: str, reason: str) -> None:
        """Say once that a topic of the target is not touched."""
        if topic not in self._foreign:
            self._foreign.add(topic)
            _log.error("mirror_topic_refused", flow=self.name, topic=topic, error=reason)


def why_no_mirror(values: Mapping[str, str | None], link: str, source: CopiedTopic) -> str | None:
    """Return why a topic of the target is no mirror of a topic of the source; None if it is one.

    Args:
        values: the configuration of the target's topic.
        link: the link to the source.
    """
    if values.get(LINK) != link:
        return "it is no mirror, or was promoted"
    copied = values.get(SOURCE_TOPIC) or source.remote_name
    if copied != source.name:
        return f"it is a mirror of {copied}, not of {source.name}"
    topic_id = values.get(SOURCE_TOPIC_ID)
    if topic_id and source.topic_id is not None and UUID(topic_id) != source.topic_id:
        return f"{source.name} was deleted at the source and created again: delete the mirror topic"
    return None
