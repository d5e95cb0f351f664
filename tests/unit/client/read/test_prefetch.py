"""The reader follows a leader that moves, without losing or doubling a record."""

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from headrace.client.error import BrokerError, ConnectionLost, PositionOutOfRange
from headrace.client.read.read_range import ReadRange
from headrace.client.read.reader import Reader
from headrace.model.ids import TopicPartition
from headrace.records.encode import encode
from headrace.wire.error_code import ErrorCode
from testkit.fault.moving_cluster import MovingCluster

BATCHES = 40
CLICKS = TopicPartition("clicks", 0)
ALL = {CLICKS: ReadRange(0, BATCHES * 5)}


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
    cluster.advertised = (1, 5)  # an epoch that broker 1 has not heard of yet

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


REMOTE = {"cleanup.policy": "delete", "remote.storage.enable": "true"}


def test_a_remote_read_that_takes_long_is_no_gap(cluster: MovingCluster) -> None:
    cluster.configs = REMOTE
    at_fetch = iter(range(1000))

    def go_silent(node: int) -> None:
        if next(at_fetch) == 5:
            cluster.silent_fetches = 20

    cluster.on_fetch = go_silent

    with Reader(settings(cluster, fetch_max_wait_ms="77"), ALL) as reader:
        assert offsets(reader) == list(range(BATCHES * 5))
    assert {*cluster.waits_ms[6:26]} == {77}


def test_records_that_a_remote_read_never_gives_are_named(cluster: MovingCluster) -> None:
    cluster.configs, cluster.silent_fetches = REMOTE, 1_000_000
    hasty = settings(cluster, default_api_timeout_ms="100")

    with (
        Reader(hasty, ALL) as reader,
        pytest.raises(PositionOutOfRange, match="ends at 200, and its leader sends nothing of it"),
    ):
        reader.poll()


@pytest.mark.parametrize(
    "configs",
    [
        {"cleanup.policy": "delete,compact"},
        {"cleanup.policy": "delete", "remote.storage.enable": "false"},
    ],
)
def test_a_gap_of_a_topic_without_remote_storage_is_passed_at_once(
    cluster: MovingCluster, configs: dict[str, str]
) -> None:
    cluster.configs, cluster.tail = configs, 10

    with Reader(settings(cluster), {CLICKS: ReadRange(195, 210)}) as reader:
        assert offsets(reader) == list(range(195, 200))

    assert reader.positions == {CLICKS: 210}
    assert len(cluster.waits_ms) == 2


@pytest.mark.parametrize("configs", [None, {"cleanup.policy": "delete"}])
def test_without_the_configuration_a_lasting_silence_is_a_gap(
    cluster: MovingCluster, configs: dict[str, str] | None
) -> None:
    cluster.configs, cluster.tail = configs, 10
    # Not longer than that in any case, and long enough for some fetches of a slow machine.
    hasty = settings(cluster, default_api_timeout_ms="1500")

    with Reader(hasty, {CLICKS: ReadRange(195, 210)}) as reader:
        assert offsets(reader) == list(range(195, 200))

    assert reader.positions == {CLICKS: 210}
    assert len(cluster.waits_ms) > 3


def test_a_fetch_whose_response_cannot_be_read_is_retried(cluster: MovingCluster) -> None:
    at_fetch = iter(range(1000))

    def garble(node: int) -> None:
        if next(at_fetch) == 5:
            cluster.garbled_fetches = 3

    cluster.on_fetch = garble

    with Reader(settings(cluster), ALL) as reader:
        assert offsets(reader) == list(range(BATCHES * 5))
    assert cluster.garbled_fetches == 0


def test_answers_that_can_never_be_read_are_given_up(cluster: MovingCluster) -> None:
    cluster.garbled_fetches = 1_000_000
    hasty = settings(cluster, default_api_timeout_ms="100")

    with Reader(hasty, ALL) as reader, pytest.raises(ConnectionLost, match="cannot read clicks-0"):
        reader.poll()


def test_a_leader_that_no_metadata_names_is_given_up(cluster: MovingCluster) -> None:
    cluster.move(2, advertise=False)
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
            cluster.move(2, advertise=False)

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
