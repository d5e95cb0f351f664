"""The reader follows a leader that moves, without losing or doubling a record."""

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from headrace.client.error import BrokerError
from headrace.client.read_range import ReadRange
from headrace.client.reader import Reader
from headrace.model.ids import TopicPartition
from headrace.records.encode import encode
from headrace.testing.moving_cluster import MovingCluster
from headrace.wire.error_code import ErrorCode

BATCHES = 40
ALL = {TopicPartition("clicks", 0): ReadRange(0, BATCHES * 5)}


@pytest.fixture
def cluster() -> Iterator[MovingCluster]:
    rows = pa.record_batch({"value": ["v"] * 5})
    data = [encode(rows, timestamp_ms=0, base_offset=5 * n).data for n in range(BATCHES)]
    with MovingCluster(data, nodes=3) as brokers:
        yield brokers


def settings(cluster: MovingCluster, **more: str) -> dict[str, str]:
    return {"bootstrap.servers": cluster.address, "retry.backoff.ms": "1"} | {
        name.replace("_", "."): value for name, value in more.items()
    }


def offsets(reader: Reader) -> list[int]:
    return [offset for chunk in reader for offset in chunk.columns["offset"].to_pylist()]


def test_a_leader_that_moves_again_and_again(cluster: MovingCluster) -> None:
    dice = random.Random(5)

    def move_now_and_then(node: int) -> None:
        if dice.random() < 0.3:
            cluster.move(dice.choice([1, 2, 3]))

    cluster.on_fetch = move_now_and_then

    with Reader(settings(cluster), ALL) as reader:
        assert offsets(reader) == list(range(BATCHES * 5))
    assert {ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch} <= {*cluster.refused}


def test_metadata_that_knows_less_than_the_leader(cluster: MovingCluster) -> None:
    cluster.told = (1, 5)  # an epoch that broker 1 has not heard of yet

    def catch_up(node: int) -> None:
        if len(cluster.refused) == 3:
            cluster.epoch = 5

    cluster.on_fetch = catch_up

    with Reader(settings(cluster), ALL) as reader:
        assert offsets(reader) == list(range(BATCHES * 5))
    assert cluster.refused == [ErrorCode.unknown_leader_epoch] * 3


def test_a_range_ends_where_nothing_is_left_before_its_end(cluster: MovingCluster) -> None:
    cluster.tail = 10
    clicks = TopicPartition("clicks", 0)

    with Reader(settings(cluster), {clicks: ReadRange(190, 210)}) as reader:
        assert offsets(reader) == list(range(190, 200))

    assert reader.positions == {clicks: 210}


def test_a_leader_nobody_tells_of_is_given_up(cluster: MovingCluster) -> None:
    cluster.move(2, tell=False)
    hasty = settings(cluster, default_api_timeout_ms="100")

    with (
        Reader(hasty, ALL) as reader,
        pytest.raises(BrokerError, match="cannot read clicks-0: the leader has changed") as raised,
    ):
        reader.poll()
    assert raised.value.code is ErrorCode.not_leader_or_follower
    with pytest.raises(BrokerError):
        reader.poll()


def test_what_came_before_the_failure_is_read(cluster: MovingCluster) -> None:
    fetches = iter(range(1000))

    def leave(node: int) -> None:
        if next(fetches) == 10:
            cluster.move(2, tell=False)

    cluster.on_fetch = leave
    found: list[int] = []

    with (
        Reader(settings(cluster, default_api_timeout_ms="100"), ALL) as reader,
        pytest.raises(BrokerError),
    ):
        for chunk in reader:
            found += chunk.columns["offset"].to_pylist()

    assert found == list(range(50))
    assert reader.positions == {TopicPartition("clicks", 0): 50}
