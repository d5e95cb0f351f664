"""Lets those read a mirror topic who may read its source, as MirrorMaker 2's sync.topic.acls does.

Rule 1: only what reading needs is synced: allowed, and denied. Who may write to a mirror topic,
change it or delete it, is for the target to say.
Rule 2: an entry is written for each mirror topic by its name. One of the source for a prefix, or
for all topics, would open topics of the target that are no mirrors.
Rule 3: nothing is deleted at the target: its administrator may have written the same entry.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import structlog

from headrace.client.error import BrokerError, error_of
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
_DENY, _ALLOW = 2, 3
_EVERY_TOPIC: Final = "*"
_MOST_ENTRIES: Final = 500


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


class AclSync:
    """The access control entries of one flow. One thread, which owns the pools, may use it."""

    def __init__(self, flow: FlowSettings, source: ConnectionPool, target: ConnectionPool) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._refused: str | None = None

    def sync(self, names: Mapping[str, str]) -> int:
        """Write the entries that mirror topics lack, by source's name the target's; return how
        many that were. A cluster that refuses is logged, once.

        Raises:
            ClientError: one of the clusters cannot be reached.
        """
        try:
            wanted = mirrored_acls(read_acls(self._source), names) if names else set()
            new = sorted(wanted - read_acls(self._target)) if wanted else []
            for some in _chunks(new):
                self._create(some)
        except BrokerError as error:
            if self._refused != str(error):
                self._refused = str(error)
                _log.warning("mirror_acls_refused", flow=self._flow.name, error=str(error))
            return 0
        self._refused = None
        if new:
            _log.info("mirror_acls_written", flow=self._flow.name, entries=len(new))
        return len(new)

    def _create(self, entries: list[TopicAcl]) -> None:
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
        for each in answer.results:
            error = error_of(each.error_code, each.error_message)
            if error is not None:
                raise error


def _chunks(entries: list[TopicAcl]) -> Iterator[list[TopicAcl]]:
    for first in range(0, len(entries), _MOST_ENTRIES):
        yield entries[first : first + _MOST_ENTRIES]
