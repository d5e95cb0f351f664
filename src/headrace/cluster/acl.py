"""Access control entries (KIP-11, prefixed patterns by KIP-290)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

WILDCARD = "*"


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    """Who may, or may not, do what with which resource, from where.

    The words are Kafka's enum names in lower case: `topic`, `literal` or `prefixed`, `read`,
    `allow` or `deny`. A principal is `User:anna`, a host an address or `*`.
    """

    KIND: ClassVar[str] = "acls"

    resource_type: str
    resource_name: str
    pattern_type: str
    principal: str
    host: str
    operation: str
    permission: str

    def key(self) -> tuple[str, ...]:
        """Return all fields: an entry is its own name, so adding it twice changes nothing."""
        return (
            self.resource_type,
            self.resource_name,
            self.pattern_type,
            self.principal,
            self.host,
            self.operation,
            self.permission,
        )

    def to_json(self) -> dict[str, Any]:
        return {}

    @classmethod
    def from_json(cls, key: tuple[str, ...], fields: Mapping[str, Any]) -> "Acl":
        return cls(*key)


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Which entries DescribeAcls and DeleteAcls mean; None stands for any.

    `pattern_type` may also be `match`: every entry that would apply to `resource_name`, literal,
    prefixed and wildcard alike.
    """

    resource_type: str | None = None
    resource_name: str | None = None
    pattern_type: str | None = None
    principal: str | None = None
    host: str | None = None
    operation: str | None = None
    permission: str | None = None

    def accepts(self, acl: Acl) -> bool:
        same = (
            (self.resource_type, acl.resource_type),
            (self.principal, acl.principal),
            (self.host, acl.host),
            (self.operation, acl.operation),
            (self.permission, acl.permission),
        )
        return all(
            expected is None or expected == actual for expected, actual in same
        ) and self._accepts_pattern(acl)

    def _accepts_pattern(self, acl: Acl) -> bool:
        if self.pattern_type == "match":
            return self.resource_name is None or applies(acl, self.resource_name)
        if self.pattern_type is not None and self.pattern_type != acl.pattern_type:
            return False
        return self.resource_name is None or self.resource_name == acl.resource_name


def applies(acl: Acl, resource_name: str) -> bool:
    """Return whether the entry is about a resource of that name."""
    if acl.pattern_type == "prefixed":
        return resource_name.startswith(acl.resource_name)
    return acl.resource_name in (resource_name, WILDCARD)
