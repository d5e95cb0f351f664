"""What earlier snapshots of the cluster contained: the numbers behind rates and charts."""

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from headrace.console.internal import is_internal_group, is_internal_topic
from headrace.console.status.series_set import POINTS, SeriesSet
from headrace.console.status.snapshot import Snapshot
from headrace.model.ids import TopicPartition

K = TypeVar("K", bound=Hashable)


class ThroughputPoint(NamedTuple):
    """Records and bytes per second through the whole cluster: written, and committed as read."""

    at_ms: int
    written: float
    read: float
    written_bytes: float
    read_bytes: float


class SnapshotHistory:
    """The last minutes of the cluster. One thread adds, others read.

    Attributes:
        ends: end offsets, summed per topic.
        committed: committed offsets, summed per group and topic.
        lags: per group and partition.
        throughput: between every two snapshots, oldest first.
    """

    def __init__(self) -> None:
        self.ends: SeriesSet[str] = SeriesSet()
        self.committed: SeriesSet[tuple[str, str]] = SeriesSet()
        self.lags: SeriesSet[tuple[str, TopicPartition]] = SeriesSet()
        self.throughput: tuple[ThroughputPoint, ...] = ()
        self._last_ends: Mapping[str, int] = {}
        self._last_committed: Mapping[tuple[str, str], int] = {}
        self._last_ms = 0

    def add(self, snapshot: Snapshot) -> None:
        ends: Counter[str] = Counter()
        for partition, end in snapshot.ends.items():
            ends[partition.topic] += end
        committed: Counter[tuple[str, str]] = Counter()
        lags: dict[tuple[str, TopicPartition], int] = {}
        for name, group in snapshot.groups.items():
            for each in group.partitions:
                committed[name, each.partition.topic] += each.committed
                lags[name, each.partition] = each.lag
        if self._last_ms:
            point = self._point(snapshot, ends, committed)
            self.throughput = (*self.throughput[1 - POINTS :], point)
        self._last_ends, self._last_committed, self._last_ms = ends, committed, snapshot.at_ms
        self.ends.add(snapshot.at_ms, ends)
        self.committed.add(snapshot.at_ms, committed)
        self.lags.add(snapshot.at_ms, lags)

    def _point(
        self,
        snapshot: Snapshot,
        ends: Mapping[str, int],
        committed: Mapping[tuple[str, str], int],
    ) -> ThroughputPoint:
        """Return the throughput since the last snapshot, without internal topics and groups."""
        seconds = max((snapshot.at_ms - self._last_ms) / 1000, 0.001)
        size = snapshot.bytes_per_record
        written = written_bytes = read = read_bytes = 0.0
        for topic, growth in _growths(ends, self._last_ends):
            if not is_internal_topic(topic):
                written += growth
                written_bytes += growth * size.get(topic, 0.0)
        for (group, topic), growth in _growths(committed, self._last_committed):
            if not is_internal_group(group):
                read += growth
                read_bytes += growth * size.get(topic, 0.0)
        rates = (each / seconds for each in (written, read, written_bytes, read_bytes))
        return ThroughputPoint(snapshot.at_ms, *rates)


def _growths(now: Mapping[K, int], before: Mapping[K, int]) -> Iterator[tuple[K, int]]:
    """Yield how much each counter grew. A new counter, or one that went back, is left out."""
    for key, value in now.items():
        growth = value - before.get(key, value)
        if growth > 0:
            yield key, growth
