"""The topics that rows go to, made by the broker when it does that.

Kafka's own producer, and with it Spark's connector, asks for a topic in a way that lets the broker
make it (auto.create.topics.enable). Queries that count on it must go on working here.
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
    """A topic as it is, or as the broker makes it.

    Raises:
        BrokerError: it is not there, and does not come.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS
    asked = False
    while True:
        topic = pool.metadata([name]).topics.get(name)
        if topic is not None and topic.error is None:
            return topic
        error = None if topic is None else topic.error
        code = ErrorCode.unknown_topic_or_partition if error is None else error.code
        if code not in _NOT_YET or time.monotonic() > deadline:
            raise BrokerError(code, f"cannot write to topic {name}: {error or BrokerError(code)}")
        if asked:
            time.sleep(_PAUSE_SECONDS)
        else:
            _ask_for(pool, name)
            asked = True


def _ask_for(pool: ConnectionPool, name: str) -> None:
    body = {"topics": [{"name": name}], "allow_auto_topic_creation": True}
    pool.on_any(lambda connection: connection.call(ApiKey.METADATA, body))
