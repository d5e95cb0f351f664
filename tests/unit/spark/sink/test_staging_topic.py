"""How a staging topic is created, and found again."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from headrace.client.admin.admin import NewTopic
from headrace.client.error import BrokerError
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.model.ids import TopicPartition
from headrace.records.encode import encode
from headrace.spark.sink import staging_topic as sink_stage
from headrace.spark.sink.staging_topic import StagingTopic
from headrace.spark.sink.task_output import StagedBatch
from headrace.wire.error_code import ErrorCode
from testkit.fault.moving_cluster import MovingCluster


def test_what_waits_is_kept_however_much_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[NewTopic] = []
    missing = BrokerError(ErrorCode.unknown_topic_or_partition)

    class Admin:
        def __init__(self, pool: Any) -> None: ...

        def create_topics(self, topics: Sequence[NewTopic]) -> dict[str, None]:
            made.extend(topics)
            return {topic.name: None for topic in topics}

    monkeypatch.setattr(sink_stage, "Admin", Admin)
    monkeypatch.setattr(StagingTopic, "_problem", lambda _: None if made else missing)
    pool: Any = type("Pool", (), {"settings": None})
    monkeypatch.setattr(sink_stage, "Retry", lambda _: None)

    StagingTopic(pool, "stage").open()

    # Whatever log.retention.bytes the broker has for other topics.
    assert made[0].configs["retention.bytes"] == "-1"


def read_stage(cluster: MovingCluster, timeout_ms: int) -> list[tuple[TopicPartition, bytes]]:
    settings = ClientSettings.of(
        {
            "bootstrap.servers": cluster.address,
            "retry.backoff.ms": "1",
            "default.api.timeout.ms": str(timeout_ms),
        }
    )
    staged = [StagedBatch(TopicPartition("target", 7), 0, 0)]
    with ConnectionPool(settings) as pool:
        found = StagingTopic(pool, "clicks").read(staged)
        return [(target, bytes(batch.data)) for target, batch in found]


def test_a_stage_that_a_broker_has_not_heard_of_yet_is_asked_for_again() -> None:
    data = encode(pa.record_batch({"value": ["v"]}), timestamp_ms=0, base_offset=0).data
    with MovingCluster([data], nodes=1) as cluster:
        cluster.topic_errors = [ErrorCode.unknown_topic_or_partition] * 4

        assert read_stage(cluster, 10_000) == [(TopicPartition("target", 7), data)]


def test_a_staging_topic_that_never_appears_is_reported_by_its_own_error() -> None:
    data = encode(pa.record_batch({"value": ["v"]}), timestamp_ms=0, base_offset=0).data
    with MovingCluster([data], nodes=1) as cluster:
        cluster.topic_errors = [ErrorCode.unknown_topic_or_partition] * 10_000

        with pytest.raises(BrokerError, match="staged in topic clicks is not there") as raised:
            read_stage(cluster, 100)

    assert raised.value.code is ErrorCode.unknown_topic_or_partition
