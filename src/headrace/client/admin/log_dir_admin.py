"""The log directories of brokers, and moves of replicas between those of one broker (KIP-113)."""

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.client.error import BrokerError, error_of
from headrace.client.network.pool import ConnectionPool
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode


@dataclass(frozen=True, slots=True)
class ReplicaLog:
    """A replica's log in a directory.

    Attributes:
        lag: how many records it is behind, the leader or, while it moves, the log it replaces.
        moving: it is being copied to this directory, and will replace the log in another one.
    """

    partition: TopicPartition
    size_bytes: int
    lag: int
    moving: bool


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory of a broker. One that is offline has an error, and nothing else is known.

    Attributes:
        total_bytes, usable_bytes: of the whole disk; None from brokers that do not say.
    """

    broker: int
    path: str
    error: BrokerError | None
    logs: tuple[ReplicaLog, ...]
    total_bytes: int | None
    usable_bytes: int | None


class LogDirAdmin:
    """Shows log directories, and moves logs between them."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    def describe(
        self, brokers: Iterable[int], partition: TopicPartition | None = None
    ) -> list[LogDir]:
        """Return the log directories of these brokers, each with its logs, or with that of one
        partition.

        Raises:
            ClientError: a broker does not answer, or refuses.
        """
        topics = None
        if partition is not None:
            topics = [{"topic": partition.topic, "partitions": [partition.partition]}]
        found = []
        for broker in brokers:
            answer = self._pool.node(broker).call(ApiKey.DESCRIBE_LOG_DIRS, {"topics": topics})
            error = error_of(getattr(answer, "error_code", ErrorCode.none))
            if error is not None:
                raise error
            found += [
                LogDir(
                    broker,
                    each.log_dir,
                    error_of(each.error_code),
                    tuple(
                        ReplicaLog(
                            TopicPartition(topic.name, partition.partition_index),
                            partition.partition_size,
                            partition.offset_lag,
                            partition.is_future_key,
                        )
                        for topic in each.topics
                        for partition in topic.partitions
                    ),
                    _known(getattr(each, "total_bytes", -1)),
                    _known(getattr(each, "usable_bytes", -1)),
                )
                for each in answer.results
            ]
        return found

    def move(self, broker: int, partition: TopicPartition, path: str) -> BrokerError | None:
        """Start to move the log of a replica to another directory of its broker.

        `describe` shows it there as moving until it has arrived.
        """
        topic = {"name": partition.topic, "partitions": [partition.partition]}
        body = {"dirs": [{"path": path, "topics": [topic]}]}
        answer = self._pool.node(broker).call(ApiKey.ALTER_REPLICA_LOG_DIRS, body)
        [result] = answer.results
        return error_of(result.partitions[0].error_code)


def _known(size: int) -> int | None:
    return size if size >= 0 else None
