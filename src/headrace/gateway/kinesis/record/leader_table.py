"""Which broker leads which partition, as far as the writer knows."""

import threading
from collections.abc import Iterable
from uuid import UUID

from headrace.client.network.metadata import NO_NODE, Metadata
from headrace.gateway.kinesis.record.row import ShardLog
from headrace.model.ids import TopicPartition


class LeaderTable:
    """Leaders and topic ids, learned from metadata. Threads: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leaders: dict[TopicPartition, int] = {}
        self._topic_ids: dict[str, UUID | None] = {}

    def leader(self, log: ShardLog) -> int | None:
        """Return a broker's id, `NO_NODE` if there was no leader, or None if no one has asked."""
        return self._leaders.get(log.partition)

    def is_gone(self, log: ShardLog) -> bool:
        """Return whether another topic has the name by now."""
        known = self._topic_ids.get(log.partition.topic)
        return log.topic_id is not None and known is not None and known != log.topic_id

    def learn(self, logs: Iterable[ShardLog], metadata: Metadata | None) -> None:
        """Note what metadata says of these partitions; None if it could not be had."""
        with self._lock:
            for log in logs:
                partition = log.partition
                leader = NO_NODE if metadata is None else metadata.leader(partition)
                self._leaders[partition] = leader
                if metadata is not None:
                    self._topic_ids[partition.topic] = metadata.topic_id(partition.topic)
