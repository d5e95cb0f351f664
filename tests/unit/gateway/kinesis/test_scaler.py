"""On-demand streams get shards as they need them, and lose none that others use."""

import time
from dataclasses import replace
from typing import Any

from headrace.gateway.kinesis.limit.demand import ScalingRule
from headrace.gateway.kinesis.record.row import Row, ShardLog
from headrace.gateway.kinesis.scaler import Scaler
from headrace.gateway.kinesis.stream.stream_state import StreamMode, StreamState, new_stream
from headrace.model.ids import TopicPartition
from testkit.simulation.kinesis_memory import MemoryLog, MemoryStore

RULE = ScalingRule(window_seconds=0.001, calm_seconds=0.06, most_shards=50)


class _Case:
    """One on-demand stream, old enough to be changed, and a scaler that has watched it."""

    def __init__(self, shards: int, **fields: Any) -> None:
        self.log = MemoryLog()
        self.store = MemoryStore(self.log)
        made = new_stream("clicks", shards, 0, mode=StreamMode.ON_DEMAND, **fields)
        self.store.change("clicks", lambda _: made)
        self.scaler = Scaler(RULE, self.store, self.store, self.log)  # type: ignore[arg-type]
        self.scaler.demand.count("clicks", 0, 0, time.monotonic() - 10)

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
