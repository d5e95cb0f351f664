"""What one flow copies, and how often it looks: MirrorMaker 2's keys and defaults."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headrace.mirror.config.name_filter import ExpressionList, NameFilter
from headrace.mirror.config.replication_policy import ReplicationPolicy
from headrace.model.config import ConfigKey, ConfigTable, ConfigType, ConfigValue
from headrace.model.error import ConfigError

_POLICIES: Final = {
    "org.apache.kafka.connect.mirror.DefaultReplicationPolicy": False,
    "org.apache.kafka.connect.mirror.IdentityReplicationPolicy": True,
}


def _text(name: str, default: str, doc: str) -> ConfigKey:
    return ConfigKey(name=name, type=ConfigType.STRING, default=default, doc=doc)


def _flag(name: str, default: bool, doc: str) -> ConfigKey:
    return ConfigKey(name=name, type=ConfigType.BOOLEAN, default=default, doc=doc)


def _number(name: str, default: int, doc: str, minimum: int = 1) -> ConfigKey:
    return ConfigKey(
        name=name,
        type=ConfigType.LONG,
        default=default,
        doc=doc,
        minimum=minimum,
        maximum=2**31 - 1,
    )


FLOW_CONFIG: Final = ConfigTable.of(
    "a mirror's flow",
    [
        _flag("enabled", False, "Whether the flow runs."),
        _text("topics", ".*", "The topics to copy: regular expressions with commas."),
        _text(
            "topics.exclude", r"mm2.*\.internal,.*\.replica,__.*", "Of these, which not to copy."
        ),
        _text("groups", ".*", "The groups whose offsets are synced."),
        _text("groups.exclude", "console-consumer-.*,connect-.*,__.*", "Of these, which are not."),
        _text(
            "replication.policy.class",
            "org.apache.kafka.connect.mirror.DefaultReplicationPolicy",
            "How topics are called at the target: with the source's alias, or as they are.",
        ),
        _text(
            "config.properties.exclude",
            r"follower\.replication\.throttled\.replicas,"
            r"leader\.replication\.throttled\.replicas,"
            r"message\.timestamp\.difference\.max\.ms,"
            r"message\.timestamp\.(before|after)\.max\.ms,message\.timestamp\.type,"
            r"unclean\.leader\.election\.enable,min\.insync\.replicas",
            "Configurations of topics that are not synced.",
        ),
        ConfigKey(
            name="headrace.copied.by",
            type=ConfigType.STRING,
            default="process",
            doc="Who copies: this process, into any cluster; or the target's own brokers, which "
            "must be Headrace's, and keep offsets as they are.",
            choices=("process", "brokers"),
        ),
        _text("replication.policy.separator", ".", "What stands between alias and topic."),
        _number("replication.factor", 2, "Replicas of topics at the target; -1: its default.", -1),
        _flag("refresh.topics.enabled", True, "Whether to look for new topics."),
        _number("refresh.topics.interval.seconds", 600, "How often to look for new topics."),
        _flag("refresh.groups.enabled", True, "Whether to look for new groups."),
        _number("refresh.groups.interval.seconds", 600, "How often to look for new groups."),
        _flag("sync.topic.configs.enabled", True, "Whether configurations of topics are synced."),
        _number("sync.topic.configs.interval.seconds", 600, "How often configurations are synced."),
        _flag(
            "sync.topic.acls.enabled",
            True,
            "Whether those may read a mirror topic who may read its source; for flows that brokers "
            "copy.",
        ),
        _number("sync.topic.acls.interval.seconds", 600, "How often rights are synced."),
        _flag("emit.heartbeats.enabled", True, "Whether to write heartbeats."),
        _number("emit.heartbeats.interval.seconds", 1, "How often to write heartbeats."),
        _flag("emit.checkpoints.enabled", True, "Whether to write checkpoints of groups."),
        _number("emit.checkpoints.interval.seconds", 60, "How often to write checkpoints."),
        _flag("sync.group.offsets.enabled", False, "Whether to commit groups' offsets, too."),
        _number("sync.group.offsets.interval.seconds", 60, "How often to commit them."),
        _flag("emit.offset-syncs.enabled", True, "Whether to write offset syncs."),
        _number("offset.lag.max", 100, "After how many records the next offset sync is due.", 0),
        _text("offset-syncs.topic.location", "source", "The cluster of the offset syncs' topic."),
    ],
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSettings:
    """One flow, `source->target`. The keys of `FLOW_CONFIG`, typed."""

    source: str
    target: str
    topics: NameFilter
    groups: NameFilter
    excluded_configs: ExpressionList
    policy: ReplicationPolicy
    replication_factor: int
    values: Mapping[str, ConfigValue]

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def copied_by_brokers(self) -> bool:
        """Whether the target's brokers copy, and offsets stay as they are (decision 0040)."""
        return self.values["headrace.copied.by"] == "brokers"

    @property
    def syncs_at_source(self) -> bool:
        """Whether offset syncs are written to the source's cluster."""
        return self.values["offset-syncs.topic.location"] == "source"

    def seconds(self, task: str) -> int | None:
        """Return how often a task is due, as `sync.topic.acls`; None when it is switched off."""
        enabled = self.values[f"{task}.enabled"]
        return int(str(self.values[f"{task}.interval.seconds"])) if enabled else None

    @classmethod
    def of(cls, source: str, target: str, texts: Mapping[str, str]) -> "FlowSettings":
        """Parse the keys of a flow.

        Raises:
            ConfigError: an unknown key, or a value that its key cannot have.
        """
        values = FLOW_CONFIG.defaults() | FLOW_CONFIG.parse(texts)
        policy = str(values["replication.policy.class"])
        if policy not in _POLICIES:
            raise ConfigError(
                f"replication.policy.class {policy} is a class of Java that cannot be used here: "
                f"write one of {', '.join(_POLICIES)}"
            )
        separator = str(values["replication.policy.separator"])
        if not separator:
            raise ConfigError("replication.policy.separator is empty: write a dot, for example")
        if values["offset-syncs.topic.location"] not in ("source", "target"):
            raise ConfigError("offset-syncs.topic.location is neither source nor target")
        return cls(
            source=source,
            target=target,
            topics=NameFilter.of(str(values["topics"]), str(values["topics.exclude"])),
            groups=NameFilter.of(str(values["groups"]), str(values["groups.exclude"])),
            excluded_configs=ExpressionList(str(values["config.properties.exclude"])),
            policy=ReplicationPolicy(separator, _POLICIES[policy]),
            replication_factor=int(str(values["replication.factor"])),
            values=values,
        )
