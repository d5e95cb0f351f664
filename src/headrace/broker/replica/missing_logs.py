"""Logs that are missing together with their directory, and must not be made again.

A broker that counts as in sync, and starts without one of its log directories (a disk is not
mounted, or was replaced), has lost what it is trusted for. An empty log in its place would be
elected, and all other replicas would be cut down to it. So it is not made while this broker is in
sync for it: until the directory is back, or another replica leads.

A partition without other replicas gets an empty log: nothing else can be lost.
"""

from collections.abc import Callable, Mapping
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

    Threads: the controller's replaces all of them in `note`; any other may ask.
    """

    def __init__(self, node_id: BrokerId) -> None:
        self._node_id = node_id
        self._logs: frozenset[tuple[TopicPartition, TopicId]] = frozenset()

    def __bool__(self) -> bool:
        return bool(self._logs)

    def __len__(self) -> int:
        return len(self._logs)

    def note(
        self, topics: Mapping[str, TopicRecord], has_log: Callable[[TopicPartition, TopicId], bool]
    ) -> bool:
        """Find the missing logs when a directory is missing that this broker had; return whether
        there are any."""
        missing = frozenset(
            (partition, record.topic_id)
            for name, record in topics.items()
            for index, each in enumerate(record.partitions)
            if self._is_trusted(each)
            for partition in [TopicPartition(name, index)]
            if not has_log(partition, record.topic_id)
        )
        for partition, _ in sorted(missing - self._logs)[:_NAMED]:
            log.error("log_missing", partition=str(partition), advice=_ADVICE)
        if missing:
            log.error("logs_missing", count=len(missing))
        self._logs = missing
        return bool(missing)

    def __contains__(self, log_: tuple[TopicPartition, TopicId]) -> bool:
        return log_ in self._logs

    def forbid(self, partition: TopicPartition, record: TopicRecord) -> bool:
        """Return whether a log must not be made, as the record of its topic stands."""
        if (partition, record.topic_id) not in self._logs:
            return False
        return self._is_trusted(record.partitions[partition.partition])

    def _is_trusted(self, partition: PartitionRecord) -> bool:
        return len(partition.replicas) > 1 and self._node_id in partition.isr
