"""How many bytes a record of each topic takes in its log, estimated from the sizes of logs.

Kafka's protocol reports how many records were written (offsets) and how large logs are, but not
bytes per second. Records per second times bytes per record gives that for every broker, as stored:
compressed, in one replica.
"""

from collections import Counter, deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from headrace.model.ids import TopicPartition

# The window of measurements over which growth is compared.
_MEASURES: Final = 6


class _Measure(NamedTuple):
    bytes: Counter[str]
    ends: Counter[str]


class RecordSizes:
    """Estimates from measurements of all logs, one every few seconds. For one thread.

    While a topic grows, its estimate is growth in bytes by growth in records. Otherwise it is the
    size of the log by the number of its records.
    """

    def __init__(self) -> None:
        self._measures: deque[_Measure] = deque(maxlen=_MEASURES)
        self._means: dict[str, float] = {}

    def measure(
        self,
        sizes: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        """Add one measurement of all partitions, as of about the same moment."""
        now = _Measure(_by_topic(sizes), _by_topic(ends))
        first = _by_topic(starts)
        self._measures.append(now)
        before = self._measures[0]
        self._means = {}
        for topic, size in now.bytes.items():
            written, grew = now.ends[topic] - before.ends[topic], size - before.bytes[topic]
            if topic in before.bytes and written > 0 and grew > 0:
                self._means[topic] = grew / written
            else:
                # No record was written, or old segments were deleted.
                self._means[topic] = size / max(now.ends[topic] - first[topic], 1)

    def means(self) -> dict[str, float]:
        """Return the bytes per record of each topic whose broker reports sizes."""
        return self._means


def _by_topic(values: Mapping[TopicPartition, int]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for partition, value in values.items():
        sums[partition.topic] += value
    return sums
