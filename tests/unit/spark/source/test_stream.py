"""What a stream's driver decides about topics that are not what they were."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from headrace.model.ids import TopicPartition
from headrace.records.encode import encode
from headrace.spark.source import offset_finder
from headrace.spark.source.data_loss import DataLoss
from headrace.spark.source.offset_json import load_offsets
from headrace.spark.source.offset_range import OffsetRange
from headrace.spark.source.stream import StreamSource
from headrace.wire.error_code import ErrorCode
from testkit.fault.moving_cluster import MovingCluster
from testkit.simulation.spark_source import stream_source

CLICKS = TopicPartition("clicks", 0)
ALL = ReadAllAvailable()
EARLIEST = -2
CREATED_AGAIN = "topic clicks was deleted, and created again"
MakeSource = Callable[..., StreamSource]


@pytest.fixture
def cluster() -> Iterator[MovingCluster]:
    data = encode(pa.record_batch({"value": ["v"] * 5}), timestamp_ms=0, base_offset=0).data
    with MovingCluster([data], nodes=1) as brokers:
        brokers.cluster_id = "east"
        yield brokers


@pytest.fixture
def source(cluster: MovingCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeSource]:
    """Sources that look at the topics each time, and believe at once what they see."""
    monkeypatch.setattr(offset_finder, "NEW_PARTITIONS_SECONDS", 0.0)
    monkeypatch.setattr(offset_finder, "GONE_SECONDS", 0.0)
    made = []

    def make(**options: str) -> StreamSource:
        texts = {
            "kafka.bootstrap.servers": cluster.address,
            "subscribe": "clicks",
            "startingOffsets": '{"clicks": {"0": 3}}',
            "commitProgress": "false",
        }
        made.append(stream_source({**texts, **options}))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def ranges(reader: StreamSource, start: Any, end: Any) -> list[OffsetRange]:
    return [each.range for each in reader.partitions(start, end)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_topic_that_was_created_again_is_a_loss(
    source: MakeSource, cluster: MovingCluster, restarts: bool
) -> None:
    reader = source()
    start = reader.initialOffset()
    cluster.topic_id = UUID(int=8)

    with pytest.raises(DataLoss, match=CREATED_AGAIN):
        (source() if restarts else reader).latestOffset(start, ALL)


@pytest.mark.parametrize("limit", [ALL, ReadMaxRows(100)])
def test_a_query_that_goes_on_reads_the_new_topic_from_its_start(
    source: MakeSource, cluster: MovingCluster, limit: Any, caplog: pytest.LogCaptureFixture
) -> None:
    reader = source(failOnDataLoss="false")
    start = reader.initialOffset()
    cluster.topic_id = UUID(int=8)

    without = reader.latestOffset(start, limit)
    assert ranges(reader, start, without) == []
    # Nothing but what Spark has stored tells a process that starts here.
    again = source(failOnDataLoss="false")
    end = again.latestOffset(without, limit)

    assert ranges(again, without, end) == [OffsetRange(CLICKS, 0, 5)]
    assert again.latestOffset(end, limit) is end
    assert "records_missed" in caplog.text


def test_available_now_reads_the_new_topic_too(source: MakeSource, cluster: MovingCluster) -> None:
    reader = source(failOnDataLoss="false")
    start = reader.initialOffset()
    cluster.topic_id = UUID(int=8)
    reader.prepareForTriggerAvailableNow()

    without = reader.latestOffset(start, ALL)
    end = reader.latestOffset(without, ALL)

    assert ranges(reader, without, end) == [OffsetRange(CLICKS, 0, 5)]


@pytest.mark.parametrize("limit", [ALL, ReadMaxRows(2000)])
@pytest.mark.parametrize("partitions", [1, 2])
def test_available_now_ends_where_the_new_topic_does(
    source: MakeSource, cluster: MovingCluster, partitions: int, limit: Any
) -> None:
    cluster.tail, cluster.partitions = 995, partitions
    starting = json.dumps({"clicks": dict.fromkeys(map(str, range(partitions)), 3)})
    patience = {"kafkaConsumer.pollTimeoutMs": "200"}
    reader = source(failOnDataLoss="false", startingOffsets=starting, **patience)
    reader.prepareForTriggerAvailableNow()
    read = reader.latestOffset(reader.initialOffset(), limit)
    assert load_offsets(read)[CLICKS] == 1000
    cluster.topic_id, cluster.tail, cluster.partitions = UUID(int=8), 0, 1

    without = reader.latestOffset(read, limit)
    end = reader.latestOffset(without, limit)

    assert ranges(reader, without, end) == [OffsetRange(CLICKS, 0, 5)]
    cluster.tail = 100
    assert reader.latestOffset(end, limit) is end


def test_available_now_does_not_go_beyond_a_topic_that_is_replaced_twice(
    source: MakeSource, cluster: MovingCluster, caplog: pytest.LogCaptureFixture
) -> None:
    reader = source(failOnDataLoss="false")
    start = reader.initialOffset()
    reader.prepareForTriggerAvailableNow()
    cluster.topic_id, cluster.tail = UUID(int=8), 995
    without = reader.latestOffset(start, ALL)
    assert load_offsets(without) == {}
    cluster.topic_id, cluster.tail = UUID(int=9), 0

    end = reader.latestOffset(without, ALL)

    assert ranges(reader, without, end) == [OffsetRange(CLICKS, 0, 5)]
    assert reader.latestOffset(end, ALL) is end
    assert CREATED_AGAIN in caplog.text


def test_available_now_fails_for_a_topic_that_was_created_again(
    source: MakeSource, cluster: MovingCluster
) -> None:
    reader = source()
    reader.prepareForTriggerAvailableNow()
    read = reader.latestOffset(reader.initialOffset(), ALL)
    cluster.topic_id = UUID(int=8)

    with pytest.raises(DataLoss, match=CREATED_AGAIN):
        reader.latestOffset(read, ALL)


def test_a_micro_batch_is_not_repeated_with_records_of_another_topic(
    source: MakeSource, cluster: MovingCluster
) -> None:
    reader = source()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    cluster.topic_id = UUID(int=8)

    with pytest.raises(DataLoss, match=CREATED_AGAIN):
        source().partitions(start, end)
    assert ranges(source(failOnDataLoss="false"), start, end) == []


def test_offsets_without_ids_are_gone_on_from_and_get_them(
    source: MakeSource, cluster: MovingCluster
) -> None:
    reader = source()

    first = reader.latestOffset({"clicks": {"0": 5}}, ALL)
    assert load_offsets(first) == {CLICKS: 5}
    assert reader.partitions({"clicks": {"0": 5}}, first) == []
    assert reader.latestOffset(first, ALL) is first
    cluster.topic_id = UUID(int=8)

    with pytest.raises(DataLoss, match=CREATED_AGAIN):
        reader.latestOffset(first, ALL)


def test_a_copy_in_another_cluster_is_read_on(source: MakeSource, cluster: MovingCluster) -> None:
    start = source().initialOffset()
    cluster.topic_id, cluster.cluster_id = UUID(int=8), "west"
    reader = source()

    end = reader.latestOffset(start, ALL)

    assert ranges(reader, start, end) == [OffsetRange(CLICKS, 3, 5)]
    assert reader.latestOffset(end, ALL) is end


@pytest.mark.parametrize("reruns", [False, True])
def test_a_copy_in_the_same_cluster_is_read_on_if_its_id_is_accepted(
    source: MakeSource, cluster: MovingCluster, reruns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    before = source()
    begin = before.initialOffset()
    start = before.latestOffset(begin, ALL)
    cluster.topic_id, cluster.tail = UUID(int=8), 10
    with pytest.raises(DataLoss, match="option acceptNewTopicIds"):
        source().latestOffset(start, ALL)

    reader = source(acceptNewTopicIds="true")
    if reruns:  # the last micro-batch, which was not committed
        assert ranges(reader, begin, start) == [OffsetRange(CLICKS, 3, 5)]
    end = reader.latestOffset(start, ALL)

    assert ranges(reader, start, end) == [OffsetRange(CLICKS, 5, 15)]
    assert reader.latestOffset(end, ALL) is end
    assert source().latestOffset(end, ALL) is end
    assert "topic_ids_accepted topics=clicks" in caplog.text


def test_an_accepted_id_is_stored_without_new_records(
    source: MakeSource, cluster: MovingCluster
) -> None:
    before = source()
    start = before.latestOffset(before.initialOffset(), ALL)
    cluster.topic_id = UUID(int=8)
    reader = source(acceptNewTopicIds="true")

    end = reader.latestOffset(start, ALL)

    assert end != start
    assert reader.partitions(start, end) == []
    assert source().latestOffset(end, ALL) is end


@pytest.mark.parametrize("replaced_before", [False, True])
def test_no_id_is_accepted_that_changes_while_the_query_runs(
    source: MakeSource, cluster: MovingCluster, replaced_before: bool
) -> None:
    start = source().initialOffset()
    if replaced_before:
        cluster.topic_id = UUID(int=8)
    strict, lenient = (
        source(acceptNewTopicIds="true", failOnDataLoss=fail) for fail in ("true", "false")
    )
    end = lenient.latestOffset(start, ALL)
    assert strict.latestOffset(start, ALL) == end
    cluster.topic_id = UUID(int=9)

    with pytest.raises(DataLoss, match=CREATED_AGAIN):
        strict.latestOffset(end, ALL)
    without = lenient.latestOffset(end, ALL)
    again = lenient.latestOffset(without, ALL)
    assert ranges(lenient, without, again) == [OffsetRange(CLICKS, 0, 5)]
    assert lenient.latestOffset(again, ALL) is again


def test_brokers_without_ids_are_read(source: MakeSource, cluster: MovingCluster) -> None:
    cluster.topic_id = None
    reader = source()
    start = reader.initialOffset()

    assert start == {"clicks": {"0": 3}}
    assert reader.latestOffset(start, ALL) == {"clicks": {"0": 5}}


def test_a_partition_that_is_gone_fails_before_an_end_is_stored(
    source: MakeSource, cluster: MovingCluster
) -> None:
    reader = source()
    start = reader.initialOffset()
    cluster.topic_errors = [ErrorCode.unknown_topic_or_partition] * 1000

    with pytest.raises(DataLoss, match="clicks-0 is gone"):
        reader.latestOffset(start, ALL)
    cluster.topic_errors = []

    assert load_offsets(source().latestOffset(start, ALL)) == {CLICKS: 5}


def test_a_log_that_was_cut_off_fails_before_an_end_is_stored(
    source: MakeSource, cluster: MovingCluster
) -> None:
    reader = source(startingOffsets='{"clicks": {"0": 7}}')

    with pytest.raises(DataLoss, match="clicks-0 was read up to 7 and now ends at 5"):
        reader.latestOffset(reader.initialOffset(), ALL)


def test_deleted_offsets_fill_no_micro_batch(source: MakeSource, cluster: MovingCluster) -> None:
    cluster.tail, cluster.log_start = 95, 90
    reader = source(failOnDataLoss="false")
    start = reader.initialOffset()

    end = reader.latestOffset(start, ReadMaxRows(4))

    assert ranges(reader, start, end) == [OffsetRange(CLICKS, 90, 94)]


def test_log_starts_are_asked_for_only_by_a_query_that_is_behind(
    source: MakeSource, cluster: MovingCluster
) -> None:
    lenient, strict = source(failOnDataLoss="false"), source()
    start = strict.initialOffset()

    for reader, rows in ((lenient, 2), (strict, 1)):
        reader.partitions(start, reader.latestOffset(start, ReadMaxRows(rows)))
    assert EARLIEST not in cluster.lookups
    lenient.latestOffset(start, ReadMaxRows(1))
    assert EARLIEST in cluster.lookups
