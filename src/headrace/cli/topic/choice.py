"""Which topics and partitions a command is about."""

import re
from collections.abc import Iterable, Sequence

from headrace.client.error import ClientError
from headrace.client.network.metadata import Metadata
from headrace.client.network.pool import ConnectionPool
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition


def chosen_partitions(
    pool: ConnectionPool, topics: Sequence[str], only: Iterable[int] | None = None
) -> list[TopicPartition]:
    """The partitions of some topics, or those of them that are named.

    Raises:
        ClientError: a topic or partition that is not there.
    """
    metadata = pool.metadata(topics)
    found = []
    for name in dict.fromkeys(topics):
        topic = metadata.topics[name]
        if topic.error is not None:
            raise ClientError(f"cannot read topic {name}: {topic.error}")
        for index in topic.partitions if not only else dict.fromkeys(only):
            if index not in topic.partitions:
                last = max(topic.partitions)
                raise ClientError(f"topic {name} has partitions 0 to {last}, and no {index}")
            found.append(TopicPartition(name, index))
    return found


def matching_topics(metadata: Metadata, patterns: Sequence[str]) -> list[str]:
    """The topics whose whole name matches one of the regular expressions, by name.

    Raises:
        InvalidArgument: something that is no regular expression.
    """
    try:
        compiled = [re.compile(pattern) for pattern in patterns]
    except re.error as error:
        raise InvalidArgument(f"{error.pattern!r} is no regular expression: {error.msg}") from error
    return sorted(
        name for name in metadata.topics if any(pattern.fullmatch(name) for pattern in compiled)
    )
