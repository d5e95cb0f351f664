"""Creates the topics that a sink or a channel writes to and that do not exist."""

from collections.abc import Collection
from typing import Final

import structlog

from headrace.client.admin.admin import Admin, NewTopic
from headrace.client.error import BrokerError
from headrace.client.network.pool import ConnectionPool
from headrace.client.network.retry import Retry
from headrace.client.settings import ClientSettings
from headrace.wire.error_code import ErrorCode

_log = structlog.get_logger(__name__)
_UNKNOWN: Final = ErrorCode.unknown_topic_or_partition
REFUSALS: Final = (
    ErrorCode.topic_authorization_failed,
    ErrorCode.invalid_topic_exception,
    ErrorCode.policy_violation,
)
"""Answers that another try does not change."""

# Brokers answer before a topic that they create for a client is there.
_APPEARS_SECONDS: Final = 3.0


def create_topics(settings: ClientSettings, names: Collection[str]) -> None:
    """Create those of the topics that are missing, with the cluster's defaults.

    Raises:
        ClientError: one cannot be created.
    """
    with ConnectionPool(settings) as pool:
        new_topics = [NewTopic(name, -1) for name in _missing(pool, names)]
        outcomes = Admin(pool).create_topics(new_topics) if new_topics else {}
    for name, error in outcomes.items():
        if error is not None and error.code is not ErrorCode.topic_already_exists:
            raise error
        _log.info("topic_created", topic=name)


def ask_for_topics(settings: ClientSettings, names: Collection[str]) -> set[str]:
    """Let brokers create those of the topics that are missing, as they do for any producer: only
    with auto.create.topics.enable. Return those that never can be written: the cluster denies or
    refuses them, or has a topic whose name differs in `.` and `_` alone.

    Raises:
        ClientError: one is missing, and the brokers do not create it.
    """
    retry = Retry(settings, _APPEARS_SECONDS)
    refused: set[str] = set()
    with ConnectionPool(settings) as pool:
        missing = _missing(pool, names, refused)
        while missing:
            missing = _missing(pool, missing, refused, create=True)
            colliding = _colliding(pool, missing)
            refused |= colliding
            missing = [name for name in missing if name not in colliding]
            if missing and not retry.pause():
                raise BrokerError(
                    _UNKNOWN,
                    f"a header names the topic {missing[0]}, which does not exist, and the brokers "
                    "create none (auto.create.topics.enable): create it, or set "
                    "allowTopicOverride = false",
                )
    return refused


def _missing(
    pool: ConnectionPool,
    names: Collection[str],
    refused: set[str] | None = None,
    *,
    create: bool = False,
) -> list[str]:
    """Return the topics that do not exist, and add those that the cluster refuses to `refused`."""
    known = pool.metadata(sorted(names), create=create).topics
    codes = {name: getattr(each.error, "code", None) for name, each in known.items()}
    if refused is not None:
        refused.update(name for name, code in codes.items() if code in REFUSALS)
    return [name for name in sorted(names) if codes.get(name, _UNKNOWN) is _UNKNOWN]


def _colliding(pool: ConnectionPool, names: Collection[str]) -> set[str]:
    """Return the names that differ from that of a topic in `.` and `_` alone. Brokers never create
    such a topic, and do not say why."""
    if not any("." in name or "_" in name for name in names):
        return set()
    taken = {name.replace(".", "_") for name in pool.metadata().topics if name not in names}
    return {name for name in names if name.replace(".", "_") in taken}
