"""Leader elections, and moves of replicas between brokers."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from headrace.client.error import BrokerError, error_of
from headrace.client.network.pool import ConnectionPool
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

_PREFERRED = 0
_UNCLEAN = 1
_TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that is being moved: all its replicas now, those added and those removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class ReplicaAdmin:
    """Elects leaders and moves replicas of one cluster."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool

    def elect(
        self,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        unclean: bool = False,
        broker: int | None = None,
    ) -> dict[TopicPartition, BrokerError | None]:
        """Make preferred replicas the leaders (KIP-460).

        Args:
            partitions: None means all; the result then has only those whose leader changed.
            unclean: elect any replica where there is no leader. Committed records may be lost.
            broker: the one to ask; None means any.
        """
        body = {
            "election_type": _UNCLEAN if unclean else _PREFERRED,
            "topic_partitions": None
            if partitions is None
            else [
                {"topic": topic, "partitions": [each.partition for each in found]}
                for topic, found in _by_topic(partitions)
            ],
            "timeout": _TIMEOUT_MS,
        }
        answer = self._call(ApiKey.ELECT_LEADERS, body, broker)
        return {
            TopicPartition(topic.topic, each.partition_id): error_of(
                each.error_code, each.error_message
            )
            for topic in answer.replica_election_results
            for each in topic.partition_result
        }

    def reassign(
        self, replicas: Mapping[TopicPartition, Sequence[int] | None]
    ) -> dict[TopicPartition, BrokerError | None]:
        """Start to move partitions to these replicas; None cancels a move (KIP-455)."""
        body = {
            "timeout": _TIMEOUT_MS,
            "topics": [
                {
                    "name": topic,
                    "partitions": [
                        {"partition_index": each.partition, "replicas": replicas[each]}
                        for each in found
                    ],
                }
                for topic, found in _by_topic(replicas)
            ],
        }
        answer = self._call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, body)
        return {
            TopicPartition(topic.name, each.partition_index): error_of(
                each.error_code, each.error_message
            )
            for topic in answer.responses
            for each in topic.partitions
        }

    def moves(self) -> dict[TopicPartition, Move]:
        """Return the partitions that are being moved."""
        body = {"timeout": _TIMEOUT_MS, "topics": None}
        answer = self._call(ApiKey.LIST_PARTITION_REASSIGNMENTS, body)
        return {
            TopicPartition(topic.name, each.partition_index): Move(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in answer.topics
            for each in topic.partitions
        }

    def _call(self, api: ApiKey, body: Mapping[str, Any], broker: int | None = None) -> Any:
        if broker is None:
            answer = self._pool.on_any(lambda connection: connection.call(api, body))
        else:
            answer = self._pool.node(broker).call(api, body)
        error = error_of(answer.error_code, getattr(answer, "error_message", None))
        if error is not None and answer.error_code != ErrorCode.none:
            raise error
        return answer


def _by_topic(
    partitions: Iterable[TopicPartition],
) -> list[tuple[str, list[TopicPartition]]]:
    ordered = sorted(partitions)
    return [(topic, list(found)) for topic, found in groupby(ordered, lambda each: each.topic)]
