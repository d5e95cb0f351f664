"""How many bytes a record of each topic takes in its log, from the logs' sizes.

Kafka's protocol tells how many records were written (offsets) and how large logs are, but no bytes
a second. Records a second times bytes a record is that, on every broker, as stored: compressed, in
one replica.
"""

from collections import Counter, deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from headrace.model.ids import TopicPartition

# Over so many measurements a record's size is told from what came, before that from all there is.
_MEASURES: Final = 6


class _Measure(NamedTuple):
    bytes: Counter[str]
    ends: Counter[str]


class RecordSizes:
    """Told the sizes now and then; knows what a record takes. For one thread."""

    def __init__(self) -> None:
        self._measures: deque[_Measure] = deque(maxlen=_MEASURES)
        self._means: dict[str, float] = {}

    def measure(
        self,
        sizes: Mapping[TopicPartition, int],
        starts: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
    ) -> None:
        """One measurement of all partitions, as of about the same moment."""
        now = _Measure(_by_topic(sizes), _by_topic(ends))
        first = _by_topic(starts)
        self._measures.append(now)
        before = self._measures[0]
        self._means = {}
        for topic, size in now.bytes.items():
            came, grew = now.ends[topic] - before.ends[topic], size - before.bytes[topic]
            if topic in before.bytes and came > 0 and grew > 0:
                self._means[topic] = grew / came
            else:
                # Nothing came, or old segments went: all that is there.
                self._means[topic] = size / max(now.ends[topic] - first[topic], 1)

    def means(self) -> dict[str, float]:
        """Bytes of a record, by topic; without those whose broker does not tell."""
        return self._means


def _by_topic(values: Mapping[TopicPartition, int]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for partition, value in values.items():
        sums[partition.topic] += value
    return sums
