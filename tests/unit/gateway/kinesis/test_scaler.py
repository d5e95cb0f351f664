"""On-demand streams get shards as they need them, and lose none that others use."""

import time
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from headrace.gateway.kinesis import scaler
from headrace.gateway.kinesis.limit.demand import ScalingRule
from headrace.gateway.kinesis.operation.put import put_records
from headrace.gateway.kinesis.record.row import Row, ShardLog
from headrace.gateway.kinesis.scaler import Scaler
from headrace.gateway.kinesis.stream.stream_state import StreamMode, StreamState, new_stream
from headrace.model.ids import TopicPartition
from testkit.simulation.kinesis_memory import MemoryLog, MemoryStore, memory_service

RULE = ScalingRule(window_seconds=0.001, calm_seconds=0.06, most_shards=50)


class _Case:
    """One on-demand stream, old enough to be changed, and a scaler that has watched it."""

    def __init__(self, shards: int, **fields: Any) -> None:
        self.log = MemoryLog()
        self.store = MemoryStore(self.log)
        made = new_stream("clicks", shards, 0, mode=StreamMode.ON_DEMAND, **fields)
        self.store.change("clicks", lambda _: made)
        self.scaler = Scaler(RULE, self.store, self.store, self.log)  # type: ignore[arg-type]
        self.scaler.demand.count("clicks", [], time.monotonic() - 10)

    @property
    def stream(self) -> StreamState:
        return self.store.streams["clicks"]

    def shards_after_a_look(self) -> int:
        self.scaler.look(self.stream)
        return len(self.stream.open_shards)


def test_a_calm_stream_loses_half_of_its_shards() -> None:
    case = _Case(16)

    assert case.shards_after_a_look() == 8


def test_a_stream_that_others_put_into_keeps_its_shards() -> None:
    case = _Case(16)
    case.log.put(ShardLog(TopicPartition("clicks", 3)), [Row(b"k", b"x")])

    assert case.shards_after_a_look() == 16


def test_a_stream_with_too_few_shards_gets_more() -> None:
    assert _Case(1).shards_after_a_look() == 2
    assert _Case(4, warm_mibps=6).shards_after_a_look() == 6


def test_a_stream_that_was_changed_meanwhile_is_left_alone() -> None:
    case = _Case(16)
    old = case.stream
    case.store.change("clicks", lambda each: replace(each, revision=99) if each else None)
    case.scaler.look(old)

    assert len(case.stream.open_shards) == 16


class _CountingLog(MemoryLog):
    asked = 0

    def offsets_at(self, *arguments: Any) -> dict[TopicPartition, int]:
        self.asked += 1
        return super().offsets_at(*arguments)


def test_the_ends_of_all_shards_are_asked_for_at_once() -> None:
    case = _Case(16)
    log = _CountingLog()
    case.scaler._reader = log  # type: ignore[assignment]

    assert case.shards_after_a_look() == 8
    assert log.asked == 2


def test_a_stream_whose_topic_would_get_too_many_partitions_is_left_and_logged_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scaler, "_MOST_PARTITIONS", 23)
    case = _Case(16)

    with capture_logs() as lines:
        assert case.shards_after_a_look() == 16
        assert case.shards_after_a_look() == 16

    assert [each["event"] for each in lines] == ["kinesis_stream_not_scaled"]
    assert lines[0]["reason"] == "most partitions" and lines[0]["partitions"] == 16
    monkeypatch.setattr(scaler, "_MOST_PARTITIONS", 24)
    assert case.shards_after_a_look() == 8


def test_a_stream_with_a_hot_key_is_left_and_logged_once() -> None:
    case = _Case(4)
    case.scaler.demand.count("clicks", [(7, 1 << 30)], time.monotonic() - 1)

    with capture_logs() as lines:
        assert case.shards_after_a_look() == 4
        assert case.shards_after_a_look() == 4

    assert [each["reason"] for each in lines] == ["hot key"]


def test_only_records_that_were_written_are_a_load() -> None:
    service = memory_service()
    made = new_stream("clicks", 4, 0, mode=StreamMode.ON_DEMAND)
    service.store.change("clicks", lambda _: made)
    failed = 0
    for _ in range(20):
        records = [{"Data": b"x", "PartitionKey": "hot"} for _ in range(500)]
        failed += answer(put_records(service, {"StreamName": "clicks", "Records": records}))

    assert failed >= 500, "one shard takes 1,000 per second"
    assert service.demand.records("clicks", time.monotonic()) == 10_000 - failed


def answer(steps: Any) -> int:
    """Run an operation that waits for nothing that is not there."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        failed: int = end.value["FailedRecordCount"]
        return failed
