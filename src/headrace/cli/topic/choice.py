"""The topics and partitions that a command names."""

import re
from collections.abc import Iterable, Sequence

from headrace.client.error import BrokerError, ClientError
from headrace.client.network.metadata import Metadata
from headrace.client.network.pool import ConnectionPool
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode


def chosen_partitions(
    pool: ConnectionPool, topics: Sequence[str], only: Iterable[int] | None = None
) -> list[TopicPartition]:
    """Return the partitions of some topics: all of them, or only the given numbers.

    Raises:
        ClientError: a topic or partition does not exist.
    """
    metadata = pool.metadata(topics)
    chosen = []
    for name in dict.fromkeys(topics):
        topic = metadata.topics[name]
        if topic.error is not None:
            raise ClientError(_problem(name, topic.error))
        for index in topic.partitions if not only else dict.fromkeys(only):
            if index not in topic.partitions:
                last = max(topic.partitions)
                raise ClientError(f"topic {name} has no partition {index}, only 0 to {last}")
            chosen.append(TopicPartition(name, index))
    return chosen


def _problem(name: str, error: BrokerError) -> str:
    if error.code is ErrorCode.unknown_topic_or_partition:
        return f"topic {name}: {error}; create it with: headrace topic create {name}"
    return f"topic {name}: {error}"


def matching_topics(metadata: Metadata, patterns: Sequence[str]) -> list[str]:
    """Return the topics whose whole name matches one of the regular expressions, sorted.

    Raises:
        InvalidArgument: a pattern is no regular expression.
    """
    try:
        compiled = [re.compile(pattern) for pattern in patterns]
    except re.error as error:
        raise InvalidArgument(f"{error.pattern!r} is no regular expression: {error.msg}") from error
    return sorted(
        name for name in metadata.topics if any(pattern.fullmatch(name) for pattern in compiled)
    )
