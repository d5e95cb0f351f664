"""Lets those read a mirror topic who may read its source, as MirrorMaker 2's sync.topic.acls does.

Rule 1: only what reading needs is synced: allowed, and denied. Who may write to a mirror topic,
change it or delete it, is for the target to say.
Rule 2: an entry is written for each mirror topic by its name. One of the source for a prefix, or
for all topics, would open topics of the target that are no mirrors.
Rule 3: nothing is deleted at the target: its administrator may have written the same entry.
Rule 4: what denies is written first. A topic whose denials are not all written gets no allowance.
Rule 5: a topic gets a bounded number of entries, whatever the source says it has.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import structlog

from headrace.client.error import BrokerError, Unsupported, error_of
from headrace.client.network.pool import ConnectionPool
from headrace.mirror.config.flow_settings import FlowSettings
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

_log = structlog.get_logger(__name__)

# Kafka's codes on the wire.
_ANY: Final = 1
_TOPIC: Final = 2
LITERAL: Final = 3
PREFIXED: Final = 4
_ALL, _READ, _DESCRIBE, _DESCRIBE_CONFIGS = 2, 3, 8, 10
_READING: Final = frozenset({_READ, _DESCRIBE, _DESCRIBE_CONFIGS})
_OPERATION_NAMES: Final = {
    _READ: "Read",
    _DESCRIBE: "Describe",
    _DESCRIBE_CONFIGS: "DescribeConfigs",
}
_DENY, _ALLOW = 2, 3
_EVERY_TOPIC: Final = "*"
_MOST_ENTRIES: Final = 500
_MOST_PER_TOPIC: Final = 1_000
_MOST_NAMED: Final = 10


class TopicAcl(NamedTuple):
    """One entry about topics, in Kafka's codes."""

    topic: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int

    def is_about(self, topic: str) -> bool:
        """Return whether the entry's pattern takes a topic in."""
        if self.pattern == PREFIXED:
            return topic.startswith(self.topic)
        return self.pattern == LITERAL and self.topic in (topic, _EVERY_TOPIC)


def mirrored_acls(source: Iterable[TopicAcl], names: Mapping[str, str]) -> set[TopicAcl]:
    """Return the entries that mirror topics need.

    Args:
        names: the topics: by the source's name the target's.

    >>> everything = TopicAcl("cl", PREFIXED, "User:anna", "*", 2, 3)
    >>> [each.topic for each in mirrored_acls([everything], {"clicks": "us.clicks"})]
    ['us.clicks']
    """
    found: set[TopicAcl] = set()
    for entry in source:
        operations = _operations(entry)
        if not operations:
            continue
        for name, remote in names.items():
            if entry.is_about(name):
                found.update(
                    entry._replace(topic=remote, pattern=LITERAL, operation=operation)
                    for operation in operations
                )
    return found


def _operations(entry: TopicAcl) -> frozenset[int]:
    """Return what an entry means for reading (rule 1)."""
    if entry.operation != _ALL:
        return _READING & {entry.operation}
    if entry.permission == _ALLOW:
        return frozenset({_READ})
    return _READING if entry.permission == _DENY else frozenset()


def read_acls(pool: ConnectionPool) -> set[TopicAcl]:
    """Return all entries of a cluster about topics; none if it has no authorizer.

    Raises:
        BrokerError: this user may not see them.
        ClientError: the cluster cannot be reached.
    """
    body = {
        "resource_type_filter": _TOPIC,
        "resource_name_filter": None,
        "pattern_type_filter": _ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": _ANY,
        "permission_type": _ANY,
    }
    answer = pool.on_any(lambda connection: connection.call(ApiKey.DESCRIBE_ACLS, body, lowest=1))
    error = error_of(answer.error_code, answer.error_message)
    if error is not None:
        if error.code is ErrorCode.security_disabled:
            return set()
        raise error
    return {
        TopicAcl(
            found.resource_name,
            found.pattern_type,
            entry.principal,
            entry.host,
            entry.operation,
            entry.permission_type,
        )
        for found in answer.resources
        for entry in found.acls
    }


class NewAcls(NamedTuple):
    """The entries that one mirror topic lacks, and how many more rule 5 leaves out."""

    denials: list[TopicAcl]
    allowances: list[TopicAcl]
    skipped: int


def new_acls(
    wanted: Iterable[TopicAcl], present: Iterable[TopicAcl], most: int = _MOST_PER_TOPIC
) -> NewAcls:
    """Choose what is written for one mirror topic.

    What the target has of the topic counts, so that a source that names others each time adds no
    more. Allowances do not count against denials: they never keep one out.

    Args:
        wanted: the entries that the topic needs.
        present: the entries that the target has for the topic's name.
        most: how many denials, and how many entries with the allowances, the topic may have.

    >>> anna = TopicAcl("clicks", LITERAL, "User:anna", "*", 3, 3)
    >>> new_acls([anna, anna._replace(permission=2)], [], most=1).skipped
    1
    """
    there = set(present)
    lacking = sorted(set(wanted) - there)
    denials = [each for each in lacking if each.permission == _DENY]
    allowances = [each for each in lacking if each.permission == _ALLOW]
    denied = sum(each.permission == _DENY for each in there)
    kept = denials[: max(0, most - denied)]
    room = max(0, most - len(there) - len(kept)) if len(kept) == len(denials) else 0
    allowed = allowances[:room]
    return NewAcls(kept, allowed, len(denials) + len(allowances) - len(kept) - len(allowed))


class AclSync:
    """The access control entries of one flow. One thread, which owns the pools, may use it."""

    def __init__(self, flow: FlowSettings, source: ConnectionPool, target: ConnectionPool) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._refused: str | None = None
        self._crowded: set[str] = set()

    def sync(self, names: Mapping[str, str]) -> int:
        """Write the entries that mirror topics lack, by source's name the target's; return how
        many that were. A cluster that refuses, or knows no entries, is logged, once.

        Raises:
            ClientError: one of the clusters cannot be reached.
        """
        if not names:
            return 0
        try:
            denials, allowances = self._lacking(names)
            errors: list[str] = []
            written = self._write(denials, errors)
            undenied = {each.topic for each in set(denials) - written}
            allowed = self._write(
                [each for each in allowances if each.topic not in undenied], errors
            )
        except (BrokerError, Unsupported) as error:
            self._warn([str(error)])
            return 0
        self._warn(errors)
        total = len(written) + len(allowed)
        if total:
            _log.info("mirror_acls_written", flow=self._flow.name, entries=total)
        return total

    def _lacking(self, names: Mapping[str, str]) -> tuple[list[TopicAcl], list[TopicAcl]]:
        """Return what is to be written for all topics: denials, and allowances."""
        source = read_acls(self._source)
        if not source:
            return [], []
        present: dict[str, list[TopicAcl]] = {}
        for entry in read_acls(self._target):
            if entry.pattern == LITERAL:
                present.setdefault(entry.topic, []).append(entry)
        denials: list[TopicAcl] = []
        allowances: list[TopicAcl] = []
        skipped: dict[str, int] = {}
        for name, remote in names.items():
            new = new_acls(mirrored_acls(source, {name: remote}), present.get(remote, ()))
            denials += new.denials
            allowances += new.allowances
            if new.skipped:
                skipped[remote] = new.skipped
        self._say_skipped(skipped)
        return denials, allowances

    def _write(self, entries: list[TopicAcl], errors: list[str]) -> set[TopicAcl]:
        """Write entries; return those that the target took, and add what it said of the others."""
        written: set[TopicAcl] = set()
        for some in _chunks(entries):
            for entry, error in zip(some, self._create(some), strict=False):
                if error is not None:
                    errors.append(f"{entry.topic}, {entry.principal}: {error}")
                    continue
                written.add(entry)
                if entry.permission == _ALLOW:
                    _log.info(
                        "mirror_acl_allowed",
                        flow=self._flow.name,
                        topic=entry.topic,
                        principal=entry.principal,
                        operation=_OPERATION_NAMES[entry.operation],
                    )
        return written

    def _create(self, entries: list[TopicAcl]) -> list[BrokerError | None]:
        body = {
            "creations": [
                {
                    "resource_type": _TOPIC,
                    "resource_name": each.topic,
                    "resource_pattern_type": each.pattern,
                    "principal": each.principal,
                    "host": each.host,
                    "operation": each.operation,
                    "permission_type": each.permission,
                }
                for each in entries
            ]
        }
        answer = self._target.on_controller(
            lambda connection: connection.call(ApiKey.CREATE_ACLS, body, lowest=1),
            lambda answer: [each.error_code for each in answer.results],
        )
        return [error_of(each.error_code, each.error_message) for each in answer.results]

    def _warn(self, errors: list[str]) -> None:
        """Log what was refused, unless it was the same the last time."""
        refused = "; ".join(errors[:_MOST_NAMED]) or None
        if refused is not None and refused != self._refused:
            _log.warning(
                "mirror_acls_refused", flow=self._flow.name, error=refused, entries=len(errors)
            )
        self._refused = refused

    def _say_skipped(self, skipped: Mapping[str, int]) -> None:
        """Log the topics that are over the bound (rule 5), each once."""
        new = sorted(set(skipped) - self._crowded)
        self._crowded = set(skipped)
        if new:
            _log.warning(
                "mirror_acls_skipped",
                flow=self._flow.name,
                topics=new[:_MOST_NAMED],
                entries=sum(skipped[each] for each in new),
                most=_MOST_PER_TOPIC,
            )


def _chunks(entries: list[TopicAcl]) -> Iterator[list[TopicAcl]]:
    for first in range(0, len(entries), _MOST_ENTRIES):
        yield entries[first : first + _MOST_ENTRIES]
