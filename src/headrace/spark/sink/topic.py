"""Finds the topics that rows are for, and lets the broker create them.

Kafka's own producer, and with it Spark's connector, requests metadata in a way that lets the broker
create the topic (auto.create.topics.enable). Queries that rely on it must work here too.
"""

import time
from typing import Final

from headrace.client.error import BrokerError
from headrace.client.network.metadata import TopicMetadata
from headrace.client.network.pool import ConnectionPool
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

_PATIENCE_SECONDS: Final = 5.0
_PAUSE_SECONDS: Final = 0.1
_NOT_YET: Final = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.leader_not_available})


def find_topic(pool: ConnectionPool, name: str) -> TopicMetadata:
    """Return a topic that exists, or that the broker creates on request.

    Raises:
        BrokerError: the topic does not exist, and the broker does not create it.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    requested = False
    while True:
        topic = pool.metadata([name]).topics.get(name)
        if topic is not None and topic.error is None:
            return topic
        error = None if topic is None else topic.error
        code = ErrorCode.unknown_topic_or_partition if error is None else error.code
        if code not in _NOT_YET or time.monotonic() > deadline:
            raise BrokerError(code, f"cannot write to topic {name}: {error or BrokerError(code)}")
        if requested:
            time.sleep(_PAUSE_SECONDS)
        else:
            _request_creation(pool, name)
            requested = True


def _request_creation(pool: ConnectionPool, name: str) -> None:
    body = {"topics": [{"name": name}], "allow_auto_topic_creation": True}
    pool.on_any(lambda connection: connection.call(ApiKey.METADATA, body))
