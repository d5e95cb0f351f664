"""What a task does when its topic is deleted while it reads."""

import logging
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from headrace.client.error import BrokerError, Unreachable
from headrace.client.read import reader
from headrace.model.ids import TopicPartition
from headrace.spark.source import task as source_task
from headrace.spark.source.data_loss import DataLoss
from headrace.spark.source.offset_range import OffsetRange
from headrace.spark.source.option import SourceOptions
from headrace.spark.source.task import SourceTask
from headrace.wire.error_code import ErrorCode

RANGE = OffsetRange(TopicPartition("clicks", 0), 0, 10)


def task(**options: str) -> SourceTask:
    texts = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "clicks", **options}
    return SourceTask(SourceOptions.of(texts), StructType([StructField("value", BinaryType())]))


@pytest.fixture
def refuse(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Make every reader raise a leader's error."""

    def with_code(code: ErrorCode) -> None:
        def fail(*_: object, **__: object) -> None:
            raise BrokerError(code, "cannot read clicks-0")

        monkeypatch.setattr(reader, "Reader", fail)

    return with_code


@pytest.mark.parametrize("code", [ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id])
def test_a_topic_that_was_deleted_is_a_loss(
    code: ErrorCode, refuse: Any, caplog: pytest.LogCaptureFixture
) -> None:
    refuse(code)

    with pytest.raises(DataLoss, match="cannot read clicks-0; some records may have been missed"):
        list(task().read(RANGE))
    with caplog.at_level(logging.WARNING, "headrace.spark"):
        assert list(task(failOnDataLoss="false").read(RANGE)) == []
    assert "cannot read clicks-0" in caplog.text


def test_another_refusal_is_no_loss(refuse: Any) -> None:
    refuse(ErrorCode.topic_authorization_failed)

    with pytest.raises(BrokerError, match="cannot read clicks-0"):
        list(task(failOnDataLoss="false").read(RANGE))


class SilentReader:
    """A reader that gets no records, as while a broker is down."""

    def __init__(self, *_: object, **__: object) -> None:
        self.ended = False
        self.positions = {RANGE.partition: 4}

    def __enter__(self) -> "SilentReader":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def poll(self, timeout_seconds: float) -> None:
        pass


@pytest.mark.parametrize("fail", ["true", "false"])
def test_silence_while_no_broker_can_be_reached_is_no_loss(
    fail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "Reader", SilentReader)
    monkeypatch.setattr(source_task, "_LEADER_TIMEOUT_MS", 200)

    with pytest.raises(Unreachable, match=r"cannot reach 127\.0\.0\.1:1"):
        list(task(failOnDataLoss=fail).read(RANGE))
