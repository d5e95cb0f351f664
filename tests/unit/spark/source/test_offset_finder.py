"""Which partitions the driver sees when a broker does not know all of them."""

from collections.abc import Callable, Iterator
from uuid import UUID

import pyarrow as pa
import pytest

from headrace.client.error import BrokerError
from headrace.model.ids import TopicPartition
from headrace.records.encode import encode
from headrace.spark.source.cluster_topic_ids import ClusterTopicIds
from headrace.spark.source.offset_finder import GONE_SECONDS, OffsetFinder
from headrace.spark.source.option import SourceOptions
from headrace.wire.error_code import ErrorCode
from testkit.fault.moving_cluster import MovingCluster

CLICKS = TopicPartition("clicks", 0)


class Clock:
    """A clock that moves when the finder sleeps.

    Attributes:
        after: called when it has slept.
    """

    def __init__(self) -> None:
        self.now = 100.0
        self.after: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.after()


@pytest.fixture
def cluster() -> Iterator[MovingCluster]:
    data = encode(pa.record_batch({"value": ["v"] * 5}), timestamp_ms=0, base_offset=0).data
    with MovingCluster([data], nodes=1) as brokers:
        yield brokers


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=[{"subscribe": "clicks"}, {"subscribePattern": "cl.*"}])
def finder(
    request: pytest.FixtureRequest, cluster: MovingCluster, clock: Clock
) -> Iterator[OffsetFinder]:
    options = {
        "kafka.bootstrap.servers": cluster.address,
        "kafka.retry.backoff.ms": "1",
        "kafka.default.api.timeout.ms": "1000",
    }
    made = OffsetFinder(SourceOptions.of({**options, **request.param}), clock, clock.sleep)
    yield made
    made.close()


def test_a_partition_that_a_broker_does_not_know_for_a_moment_stays(
    finder: OffsetFinder, cluster: MovingCluster, clock: Clock
) -> None:
    cluster.topic_errors = [ErrorCode.unknown_topic_or_partition] * 5

    assert finder.latest_after({CLICKS: 3}) == {CLICKS: 5}

    assert clock.now < 100 + GONE_SECONDS


def test_a_partition_that_no_broker_knows_for_seconds_is_gone(
    finder: OffsetFinder, cluster: MovingCluster, clock: Clock
) -> None:
    cluster.topic_errors = [ErrorCode.unknown_topic_or_partition] * 1000

    assert finder.latest_after({CLICKS: 3}) == {}

    assert clock.now >= 100 + GONE_SECONDS


def test_what_is_gone_is_not_waited_for_again(
    finder: OffsetFinder, cluster: MovingCluster, clock: Clock
) -> None:
    cluster.topic_errors = [ErrorCode.unknown_topic_or_partition] * 1000
    finder.latest_after({CLICKS: 3})
    then = clock.now

    assert finder.latest_after({CLICKS: 3}) == {}

    assert clock.now == then


def test_a_topic_that_changes_leaders_is_waited_for(
    finder: OffsetFinder, cluster: MovingCluster
) -> None:
    cluster.topic_errors = [ErrorCode.leader_not_available] * 5
    assert finder.partitions() == [CLICKS]


def test_but_not_for_ever(finder: OffsetFinder, cluster: MovingCluster) -> None:
    cluster.topic_errors = [ErrorCode.leader_not_available] * 1000
    with pytest.raises(BrokerError):
        finder.partitions()


def test_the_beginning_of_a_new_partition_is_asked_for_until_it_is_known(
    finder: OffsetFinder, cluster: MovingCluster
) -> None:
    cluster.topic_errors = [ErrorCode.unknown_topic_or_partition] * 2
    assert finder.earliest([CLICKS]) == {CLICKS: 0}


def test_an_open_transaction_sets_no_reader_back(
    finder: OffsetFinder, cluster: MovingCluster, clock: Clock
) -> None:
    cluster.last_stable = 2

    assert finder.latest_after({CLICKS: 4}) == {CLICKS: 4}
    assert finder.latest_after({CLICKS: 1}) == {CLICKS: 2}

    assert clock.now == 100


def test_a_log_that_was_cut_off_does(finder: OffsetFinder, cluster: MovingCluster) -> None:
    cluster.last_stable = 2

    assert finder.latest_after({CLICKS: 6}) == {CLICKS: 2}


def test_an_id_that_a_broker_has_not_heard_of_for_a_moment_is_not_replaced(
    finder: OffsetFinder, cluster: MovingCluster, clock: Clock
) -> None:
    known = ClusterTopicIds("", {"clicks": UUID(int=8)})
    clock.after = lambda: setattr(cluster, "topic_id", UUID(int=8))

    assert not finder.replaced_topics(known)

    assert 100 < clock.now < 100 + GONE_SECONDS


def test_a_topic_with_another_id_for_seconds_is_replaced(
    finder: OffsetFinder, cluster: MovingCluster, clock: Clock
) -> None:
    known = ClusterTopicIds("", {"clicks": UUID(int=8)})

    assert set(finder.replaced_topics(known)) == {"clicks"}
    then = clock.now
    assert set(finder.replaced_topics(known)) == {"clicks"}

    assert then >= 100 + GONE_SECONDS
    assert clock.now == then
    assert not finder.replaced_topics(finder.topic_ids)
