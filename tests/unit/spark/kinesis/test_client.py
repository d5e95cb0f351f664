"""Requests that fail for a while are retried; errors say what the service said."""

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from headrace.spark.kinesis.client import KinesisClient, KinesisFault
from headrace.spark.kinesis.option import read_sink_options
from headrace.spark.kinesis.position import TRIM_HORIZON
from headrace.spark.kinesis.shard_graph import Shard

CONNECTION = read_sink_options(
    {"kinesis.streamName": "clicks", "kinesis.clientNumRetries": "2", "kinesis.region": "x"}
)


def refused(code: str, status: int = 400) -> ClientError:
    answer: Any = {
        "Error": {"Code": code, "Message": "said so"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(answer, "Operation")


class Service:
    """Answers with what a test gives, one after the other."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)

    def __getattr__(self, operation: str) -> Any:
        def call(**_: Any) -> Any:
            answer = self._answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


def client(*answers: Any) -> KinesisClient:
    return KinesisClient(CONNECTION, Service(*answers), lambda _: None)


def test_limits_lost_connections_and_faults_of_the_service_are_retried() -> None:
    lost = EndpointConnectionError(endpoint_url="http://x")
    answer = {"ShardIterator": "it"}

    for first in (refused("LimitExceededException"), refused("InternalFailure", 500), lost):
        assert client(first, first, answer).shard_iterator("s", TRIM_HORIZON) == "it"


def test_retries_end() -> None:
    with pytest.raises(KinesisFault, match="clicks: get_shard_iterator: LimitExceeded") as error:
        client(*[refused("LimitExceededException")] * 3).shard_iterator("s", TRIM_HORIZON)
    assert error.value.is_throttling


def test_a_refusal_is_not_retried() -> None:
    with pytest.raises(KinesisFault, match="AccessDeniedException: said so"):
        client(refused("AccessDeniedException"), {}).shard_iterator("s", TRIM_HORIZON)


def test_a_throttled_read_is_reported_at_once() -> None:
    with pytest.raises(KinesisFault) as error:
        client(refused("ProvisionedThroughputExceededException"), {}).get_records("it", 1)
    assert error.value.is_throttling


def test_the_creation_of_a_stream_has_milliseconds() -> None:
    moment = datetime.fromtimestamp(1_794_826_800.0045, UTC).astimezone()
    summary = {"StreamDescriptionSummary": {"StreamCreationTimestamp": moment}}

    assert client(summary).created() == "2026-11-16T11:00:00.004Z"


def test_all_pages_of_shards_are_listed() -> None:
    date = {"HTTPHeaders": {"date": "Mon, 16 Nov 2026 11:00:00 GMT"}}
    numbers = {"StartingSequenceNumber": "1"}
    closed = {"ShardId": "a", "SequenceNumberRange": {**numbers, "EndingSequenceNumber": "9"}}
    child = {"ShardId": "b", "ParentShardId": "a", "SequenceNumberRange": numbers}

    shards, now_ms = client(
        {"Shards": [closed], "NextToken": "more", "ResponseMetadata": date}, {"Shards": [child]}
    ).list_shards()

    assert shards == [Shard("a", (), False, "1"), Shard("b", ("a",), True, "1")]
    assert now_ms == 1_794_826_800_000
