"""Which partitions of a cluster a source reads."""

import time
from typing import Any

from headrace.client.network.metadata import Metadata, PartitionMetadata, TopicMetadata
from headrace.client.settings import ClientSettings
from headrace.model.ids import TopicPartition
from headrace.spark.source.topic_choice import TopicChoice

_MANY = 10_000


class Pool:
    """The part of a connection pool that is used: one topic with many partitions."""

    settings = ClientSettings.of({})

    def __init__(self, count: int) -> None:
        one = {
            index: PartitionMetadata(index, 1, 0, (1,), (1,), (), None) for index in range(count)
        }
        topic = TopicMetadata("clicks", None, False, one, None)
        self._metadata = Metadata("cluster", 1, {}, {"clicks": topic})

    def metadata(self, names: object) -> Metadata:
        return self._metadata


def test_many_assigned_partitions_are_found_at_once() -> None:
    pool: Any = Pool(_MANY)
    assigned = tuple(TopicPartition("clicks", index) for index in reversed(range(_MANY)))
    choice = TopicChoice("{}", assigned=assigned)
    started = time.thread_time()

    found = choice.listing(pool).partitions

    assert found == sorted(assigned)
    # A search through all of them for each of them takes seconds.
    assert time.thread_time() - started < 0.5


def test_other_partitions_of_an_assigned_topic_are_not_read() -> None:
    pool: Any = Pool(3)
    choice = TopicChoice("{}", assigned=(TopicPartition("clicks", 2),))

    assert choice.listing(pool).partitions == [TopicPartition("clicks", 2)]
