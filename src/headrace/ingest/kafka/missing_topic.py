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


def ask_for_topics(settings: ClientSettings, names: Collection[str]) -> None:
    """Let brokers create those of the topics that are missing, as they do for any producer: only
    with auto.create.topics.enable.

    Raises:
        ClientError: one is missing, and the brokers do not create it.
    """
    retry = Retry(settings, _APPEARS_SECONDS)
    with ConnectionPool(settings) as pool:
        missing = _missing(pool, names)
        while missing:
            missing = _missing(pool, missing, create=True)
            if missing and not retry.pause():
                raise BrokerError(
                    _UNKNOWN,
                    f"a header names the topic {missing[0]}, which does not exist, and the brokers "
                    "create none (auto.create.topics.enable): create it, or set "
                    "allowTopicOverride = false",
                )


def _missing(pool: ConnectionPool, names: Collection[str], *, create: bool = False) -> list[str]:
    known = pool.metadata(sorted(names), create=create).topics
    return [
        name
        for name in sorted(names)
        if name not in known or getattr(known[name].error, "code", None) is _UNKNOWN
    ]
