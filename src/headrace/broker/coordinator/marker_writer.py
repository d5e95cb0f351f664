"""Writes the markers that end transactions, and tells the groups whose offsets they concern."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from headrace.broker.config.internal_topic import CONSUMER_OFFSETS
from headrace.broker.replica.partition import Partition
from headrace.broker.replica.topic_table import TopicTable
from headrace.model.error import LogDirectoryOffline
from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition


class OffsetsEnded(Protocol):
    """Called after a marker was appended to a partition of `__consumer_offsets`."""

    def __call__(self, partition: int, producer_id: ProducerId, *, commit: bool) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """How a producer's transaction ends."""

    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    commit: bool
    coordinator_epoch: int
    transaction_version: int = 0


class WrittenMarker(NamedTuple):
    """Where a marker was appended: `partition` must be synced up to `end` if it syncs at all."""

    partition: Partition
    end: int


class MarkerWriter:
    """Serves the coordinator in this broker, and WriteTxnMarkers. Lives on the event loop.

    Args:
        written: called right after a marker was appended.
    """

    def __init__(
        self,
        topics: TopicTable,
        offsets_ended: OffsetsEnded,
        written: Callable[[TopicPartition, ProducerId], None],
    ) -> None:
        self._topics = topics
        self._offsets_ended = offsets_ended
        self._written = written

    def write(self, marker: Marker, name: TopicPartition) -> WrittenMarker | None:
        """Append the marker; return None when this broker does not know the partition: it does not
        exist any more, or is not served yet.

        Raises:
            LogDirectoryOffline: it exists and cannot be written now. It must get its marker later,
                or its readers wait at the transaction for ever.
            InvalidProducerEpoch, CoordinatorFenced: the marker is older than what is there.
            StorageError: it could not be written.
        """
        topic = self._topics.by_name(name.topic)
        if topic is None or not 0 <= name.partition < len(topic.partitions):
            return None
        partition = topic.partitions[name.partition]
        if partition is None:
            raise LogDirectoryOffline(f"the log of {name} is offline, or led by another broker")
        appended = partition.append_marker(
            marker.producer_id,
            marker.producer_epoch,
            commit=marker.commit,
            coordinator_epoch=marker.coordinator_epoch,
            transaction_version=marker.transaction_version,
        )
        self._written(name, marker.producer_id)
        if name.topic == CONSUMER_OFFSETS:
            self._offsets_ended(name.partition, marker.producer_id, commit=marker.commit)
        return WrittenMarker(partition, appended.last_offset + 1)
