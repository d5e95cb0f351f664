"""Logs that are missing together with their directory, and must be neither made nor led.

A broker that counts as in sync, and starts without one of its log directories (a disk is not
mounted, or was replaced), has lost what it is trusted for. An empty log in its place would be
elected, and all other replicas would be cut down to it; so would a log in a directory that this
broker's id did not have when it registered last, because it may be older. Neither is made or led
while this broker is in sync for it: until the directory is back, or another replica leads.

A partition without other replicas gets an empty log: nothing else can be lost.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import structlog

from headrace.cluster.topic import PartitionRecord, TopicRecord
from headrace.model.ids import BrokerId, TopicId, TopicPartition

log = structlog.get_logger(__name__)

_NAMED: Final = 10
_ADVICE: Final = (
    "its log directory is not there: mount it and start again. If it is lost, let another replica "
    "lead while this broker is stopped (headrace cluster elect --unclean)"
)


class MissingLogs:
    """The logs of a broker that are not made again.

    Threads: any.
    """

    def __init__(self, node_id: BrokerId) -> None:
        self._node_id = node_id
        # Replaced as a whole, under the lock: those who ask take none.
        self._logs: frozenset[tuple[TopicPartition, TopicId]] = frozenset()
        self._lock = threading.Lock()

    def __bool__(self) -> bool:
        return bool(self._logs)

    def __iter__(self) -> Iterator[tuple[TopicPartition, TopicId]]:
        return iter(self._logs)

    def __len__(self) -> int:
        return len(self._logs)

    def note(
        self, topics: Mapping[str, TopicRecord], has_log: Callable[[TopicPartition, TopicId], bool]
    ) -> list[TopicPartition]:
        """Find the missing logs, when a directory is missing that this broker had."""
        missing = frozenset(
            (partition, record.topic_id)
            for name, record in topics.items()
            for index, each in enumerate(record.partitions)
            if self._is_trusted(each)
            for partition in [TopicPartition(name, index)]
            if not has_log(partition, record.topic_id)
        )
        with self._lock:
            self._logs = missing
        return sorted(partition for partition, _ in missing)

    def report(self) -> None:
        """Write the logs that are missing to the broker's log: a few by name."""
        for partition, _ in sorted(self._logs)[:_NAMED]:
            log.error("log_missing", partition=str(partition), advice=_ADVICE)
        if self._logs:
            log.error("logs_missing", count=len(self._logs))

    def discard(self, partition: TopicPartition, topic_id: TopicId) -> None:
        """Forget a log: this broker follows another replica, and is trusted for nothing."""
        if (partition, topic_id) in self._logs:
            with self._lock:
                self._logs -= {(partition, topic_id)}

    def __contains__(self, log_: tuple[TopicPartition, TopicId]) -> bool:
        return log_ in self._logs

    def forbid(self, partition: TopicPartition, topic_id: TopicId, record: PartitionRecord) -> bool:
        """Return whether a log must be neither made nor led, as the partition's record stands."""
        return (partition, topic_id) in self._logs and self._is_trusted(record)

    def _is_trusted(self, partition: PartitionRecord) -> bool:
        return len(partition.replicas) > 1 and self._node_id in partition.isr
