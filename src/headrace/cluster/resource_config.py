"""The configuration of a resource that is nothing but its name: a group, a metrics subscription, a
mirror link."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar

from headrace.model.client_metrics_config import CLIENT_METRICS_CONFIG
from headrace.model.config import ConfigTable
from headrace.model.group_config import GROUP_CONFIG
from headrace.model.mirror_link_config import MIRROR_LINK_CONFIG


class ResourceKind(Enum):
    """What is configured; the value stands in the path of its node."""

    GROUP = "group"
    CLIENT_METRICS = "client-metrics"
    MIRROR_LINK = "mirror-link"

    @property
    def table(self) -> ConfigTable:
        return _TABLES[self]


_TABLES = {
    ResourceKind.GROUP: GROUP_CONFIG,
    ResourceKind.CLIENT_METRICS: CLIENT_METRICS_CONFIG,
    ResourceKind.MIRROR_LINK: MIRROR_LINK_CONFIG,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceConfig:
    """The keys that were set, as the texts that were written. Without any there is no entity. Its
    text leaves them out: a link has a password."""

    KIND: ClassVar[str] = "resource_configs"

    kind: ResourceKind
    name: str
    configs: Mapping[str, str] = field(default_factory=dict, repr=False)

    def key(self) -> tuple[str, ...]:
        return (self.kind.value, self.name)

    def to_json(self) -> dict[str, Any]:
        return {"configs": dict(self.configs)}

    @classmethod
    def from_json(cls, key: tuple[str, ...], fields: Mapping[str, Any]) -> "ResourceConfig":
        kind, name = key
        return cls(kind=ResourceKind(kind), name=name, configs=fields["configs"])
