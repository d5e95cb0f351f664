"""Who may do what: the rules of Kafka's StandardAuthorizer.

Rule 1: a super user may do everything.
Rule 2: entries apply to a resource by its literal name, by the literal `*`, or by a prefix
(KIP-290); to a principal by name or as `User:*`; from a host by address or `*`.
Rule 3: one entry that denies wins over any number that allow.
Rule 4: the operation ALL stands for each. To be allowed READ, WRITE, DELETE or ALTER allows
DESCRIBE, and ALTER_CONFIGS allows DESCRIBE_CONFIGS. To be denied one denies only that one.
Rule 5: a resource with entries, none of which is about the client's principal, is closed to it. A
resource without any entry is closed too, unless `allow.everyone.if.no.acl.found`.
"""

import time
from collections import defaultdict
from collections.abc import Iterable

import structlog

from headrace.broker.auth.resource import OPERATIONS, Operation, ResourceType
from headrace.broker.limited_warning import LimitedWarning
from headrace.cluster.acl import WILDCARD, Acl
from headrace.model.ids import TOPIC_NAME_MAX_LENGTH

log = structlog.get_logger(__name__)

_ANYONE = "User:*"
_DENY = "deny"
_LITERAL = "literal"

# Every produce and fetch needs a decision. When the table is full it is cleared.
_MAX_REMEMBERED = 50_000

# As long as a topic's name may be. Clients choose what they ask for: longer names are neither kept
# nor written to the log whole.
_MAX_NAME = TOPIC_NAME_MAX_LENGTH

_IMPLIED_BY = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}


def _words(operation: Operation) -> frozenset[str]:
    allowing = (operation, Operation.ALL, *_IMPLIED_BY.get(operation, ()))
    return frozenset(each.name.lower() for each in allowing)


_ALLOWED_BY = {operation: _words(operation) for operation in Operation}
_DENIED_BY = {
    operation: frozenset({operation.name.lower(), Operation.ALL.name.lower()})
    for operation in Operation
}


class _Entries:
    """The entries about one type of resource."""

    __slots__ = ("literal", "prefix_lengths", "prefixed")

    def __init__(self) -> None:
        self.literal: defaultdict[str, list[Acl]] = defaultdict(list)
        self.prefixed: defaultdict[str, list[Acl]] = defaultdict(list)
        self.prefix_lengths: tuple[int, ...] = ()

    def add(self, acl: Acl) -> None:
        if acl.pattern_type == _LITERAL:
            self.literal[acl.resource_name].append(acl)
        else:
            self.prefixed[acl.resource_name].append(acl)
            self.prefix_lengths = tuple(sorted({len(each) for each in self.prefixed}))

    def about(self, name: str) -> list[Acl]:
        """Return every entry that applies to a resource of that name (rule 2)."""
        entries = [*self.literal.get(name, ()), *self.literal.get(WILDCARD, ())]
        for length in self.prefix_lengths:
            if length > len(name):
                break
            entries += self.prefixed.get(name[:length], ())
        return entries

    def all(self) -> Iterable[Acl]:
        for table in (self.literal, self.prefixed):
            for acls in table.values():
                yield from acls


class Authorizer:
    """Decides from a set of entries. Lives on the event loop.

    Args:
        super_users: principals as `User:anna`.
        open_without_acl: `allow.everyone.if.no.acl.found`.

    >>> Authorizer(["User:root"]).allows(
    ...     "User:root", "127.0.0.1", Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster")
    True

    Attributes:
        version: grows with every change of the entries.
    """

    def __init__(self, super_users: Iterable[str] = (), *, open_without_acl: bool = False) -> None:
        self.version = 0
        self._super_users = frozenset(super_users)
        self._open_without_acl = open_without_acl
        self._entries: dict[str, _Entries] = {}
        self._remembered: dict[tuple[str, str, Operation, ResourceType, str], bool] = {}
        self._denials = LimitedWarning(time.monotonic, log)

    def set_acls(self, acls: Iterable[Acl]) -> None:
        """Decide by these entries from now on."""
        entries: dict[str, _Entries] = {}
        for acl in acls:
            entries.setdefault(acl.resource_type, _Entries()).add(acl)
        self._entries = entries
        self._remembered = {}
        self.version += 1

    def allows(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        question = (principal, host, operation, kind, name)
        known = self._remembered.get(question)
        if known is None:
            known = self._decide(*question)
            # What is remembered is not logged again: a denial only counts as known when it was.
            if not known and not self._log_denial(*question):
                return known
            if len(name) > _MAX_NAME:
                return known
            if len(self._remembered) >= _MAX_REMEMBERED:
                self._remembered.clear()
            self._remembered[question] = known
        return known

    def _log_denial(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        return self._denials.warn(
            "access_denied",
            principal=principal,
            host=host,
            operation=operation.name,
            resource=f"{kind.name}:{name[:_MAX_NAME]}",
        )

    def would_allow(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        """Decide as `allows`, about a resource that no client asked for: no denial is logged."""
        question = (principal, host, operation, kind, name)
        known = self._remembered.get(question)
        return self._decide(*question) if known is None else known

    def _decide(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        if principal in self._super_users:
            return True
        entries = self._entries.get(kind.name.lower())
        about = [] if entries is None else entries.about(name)
        if not about:
            return self._open_without_acl
        allowed = False
        for acl in about:
            if not _is_for(acl, principal, host):
                continue
            if acl.permission == _DENY:
                if acl.operation in _DENIED_BY[operation]:
                    return False
            elif acl.operation in _ALLOWED_BY[operation]:
                allowed = True
        return allowed

    def allows_any(
        self, principal: str, host: str, operation: Operation, kind: ResourceType
    ) -> bool:
        """Return whether there can be a resource of this type on which it is allowed (KIP-679).

        A name that no entry can have decides for super users, wildcards and rule 5.
        """
        if self._decide(principal, host, operation, kind, "\0"):
            return True
        entries = self._entries.get(kind.name.lower())
        if entries is None:
            return False
        mine = [
            acl
            for acl in entries.all()
            if _is_for(acl, principal, host) and acl.operation in _DENIED_BY[operation]
        ]
        denied = [acl for acl in mine if acl.permission == _DENY]
        return any(
            not any(_covers(deny, allow) for deny in denied)
            for allow in mine
            if allow.permission != _DENY
        )

    def operations(self, principal: str, host: str, kind: ResourceType, name: str) -> int:
        """Return what is allowed on a resource, one bit per operation code (KIP-430)."""
        return sum(
            1 << operation
            for operation in OPERATIONS[kind]
            if self._decide(principal, host, operation, kind, name)
        )


def all_operations(kind: ResourceType) -> int:
    """Return what `operations` returns where no authorizer is configured."""
    return sum(1 << operation for operation in OPERATIONS[kind])


def _is_for(acl: Acl, principal: str, host: str) -> bool:
    return acl.principal in (principal, _ANYONE) and acl.host in (host, WILDCARD)


def _covers(deny: Acl, allow: Acl) -> bool:
    """Return whether `deny` applies to every resource that `allow` applies to."""
    if deny.pattern_type == _LITERAL:
        if deny.resource_name == WILDCARD:
            return True
        return allow.pattern_type == _LITERAL and allow.resource_name == deny.resource_name
    if allow.pattern_type == _LITERAL and allow.resource_name == WILDCARD:
        return False
    return allow.resource_name.startswith(deny.resource_name)


def parse_principals(text: str) -> tuple[str, ...]:
    """Return the principals of `super.users`; semicolons separate them, names may hold commas.

    >>> parse_principals("User:anna; User:CN=bob,O=x")
    ('User:anna', 'User:CN=bob,O=x')
    """
    return tuple(item.strip() for item in text.split(";") if item.strip())
