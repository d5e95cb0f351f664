"""Reads MirrorMaker 2's file.

Rule 1: `A->B.key` counts for one flow, `key` for all flows.
Rule 2: `A.key` counts for the connections to one cluster, `A.consumer.key`, `A.producer.key` and
        `A.admin.key` too; keys of security count for all clusters when they stand alone.
Rule 3: keys of Connect's workers, which do not exist here, are ignored and listed. A key that is
        none of these is an error, with the nearest one that is known.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headrace.client.java_option import JAVA_KEYS, from_java
from headrace.client.settings import CLIENT_CONFIG, ClientSettings
from headrace.config.properties import property_values
from headrace.mirror.config.flow_settings import FLOW_CONFIG, FlowSettings
from headrace.model.error import ConfigError

_FLOW: Final = re.compile(r"([^.\s]+?)->([^.\s]+?)\.(.+)")
_ALIAS: Final = re.compile(r"[A-Za-z0-9_-]+")
_ROLES: Final = ("consumer", "producer", "admin")
_SECURITY: Final = ("security.protocol", "sasl.", "ssl.")
# Keys of the framework that MirrorMaker 2 runs in, and of files that its users share around.
_CONNECT: Final = re.compile(
    r"tasks\.max|name|connector\.class|dedicated\.mode\.enable\.internal\.rest|"
    r"(config|offset|status)\.storage\..*|offset\.flush\..*|exactly\.once\.source\.support|"
    r"(key|value|header)\.converter.*|plugin\.path|listeners|rest\..*|admin\..*|metric.*|"
    r"(checkpoints|heartbeats|offset-syncs)\.topic\.replication\.factor|"
    r"config\.properties\.blacklist|task\.assigned\..*|consumer\.poll\.timeout\.ms|"
    r"topic\.filter\.class|group\.filter\.class|config\.property\.filter\.class|"
    r"use\.defaults\.from|add\.source\.alias\.to\.metrics|provenance\..*"
)


@dataclass(frozen=True, slots=True)
class MirrorFile:
    """The clusters and the flows that are enabled.

    Attributes:
        clients: how to reach each cluster, by alias.
        ignored: keys that have no effect here, in the file's order.
    """

    clients: Mapping[str, ClientSettings]
    flows: tuple[FlowSettings, ...]
    ignored: tuple[str, ...]

    @classmethod
    def read(cls, path: Path) -> "MirrorFile":
        """Read a file.

        Raises:
            ConfigError: it cannot be read, names no clusters or flows, or has a wrong value.
        """
        return cls.of(property_values(path))

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> "MirrorFile":
        """Read the keys of a file.

        Raises:
            ConfigError: as above.
        """
        aliases = _aliases(texts)
        sorter = _Sorter(aliases)
        for name, text in texts.items():
            if name != "clusters":
                sorter.add(name, text)
        clients = {alias: sorter.client(alias) for alias in aliases}
        flows = tuple(sorter.flows())
        if not flows:
            first, second = (*aliases, "B")[:2]
            raise ConfigError(f"no flow is enabled: write {first}->{second}.enabled = true")
        return cls(clients, flows, tuple(sorter.ignored))


class _Sorter:
    """Puts every key where it belongs."""

    def __init__(self, aliases: tuple[str, ...]) -> None:
        self._aliases = aliases
        self._clusters: dict[str, dict[str, str]] = {alias: {} for alias in aliases}
        self._flows: dict[tuple[str, str], dict[str, str]] = {}
        self._all_clusters: dict[str, str] = {}
        self._all_flows: dict[str, str] = {}
        self.ignored: list[str] = []

    def add(self, name: str, text: str) -> None:
        flow = _FLOW.fullmatch(name)
        if flow is not None:
            self._add_to_flow(flow[1], flow[2], flow[3], name, text)
            return
        alias, _, rest = name.partition(".")
        if alias in self._clusters and rest:
            self._add_to_cluster(alias, rest, name, text)
        elif name.startswith(_SECURITY):
            self._all_clusters[name] = text
        elif _CONNECT.fullmatch(name):
            self.ignored.append(name)
        else:
            self._all_flows[FLOW_CONFIG[name].name] = text

    def _add_to_flow(self, source: str, target: str, key: str, name: str, text: str) -> None:
        for alias in (source, target):
            if alias not in self._clusters:
                raise ConfigError(
                    f"{name}: {alias} is not among the clusters; add it to `clusters`"
                )
        if source == target:
            raise ConfigError(f"{name}: a cluster cannot be mirrored into itself")
        if _CONNECT.fullmatch(key):
            self.ignored.append(name)
            return
        flow = self._flows.setdefault((source, target), {})
        flow[FLOW_CONFIG[key].name] = text

    def _add_to_cluster(self, alias: str, key: str, name: str, text: str) -> None:
        role, _, rest = key.partition(".")
        if role in _ROLES and rest:
            key = rest
        if key in CLIENT_CONFIG or key in JAVA_KEYS:
            self._clusters[alias][key] = text
        elif key.startswith(_SECURITY):
            raise ConfigError(f"{name} is a key of security that has no effect here: take it out")
        else:
            self.ignored.append(name)

    def client(self, alias: str) -> ClientSettings:
        texts = self._all_clusters | self._clusters[alias]
        if "bootstrap.servers" not in texts:
            raise ConfigError(f"{alias}.bootstrap.servers is missing")
        return ClientSettings.of({"client.id": f"mirror-{alias}"} | from_java(texts, f"{alias}."))

    def flows(self) -> Iterable[FlowSettings]:
        for (source, target), texts in sorted(self._flows.items()):
            both = self._all_flows | texts
            flow = FlowSettings.of(source, target, both)
            if flow.values["enabled"]:
                yield flow


def _aliases(texts: Mapping[str, str]) -> tuple[str, ...]:
    listed = tuple(each.strip() for each in texts.get("clusters", "").split(",") if each.strip())
    if len(listed) < 2:
        raise ConfigError("`clusters` names fewer than two: write clusters = A, B")
    for alias in listed:
        if not _ALIAS.fullmatch(alias):
            raise ConfigError(
                f"the cluster {alias!r} has an alias with other characters than A-z, 0-9, _, -"
            )
    if len(set(listed)) < len(listed):
        raise ConfigError("`clusters` names a cluster twice")
    return listed
