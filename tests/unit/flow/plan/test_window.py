"""Windows of count and time, over batches of any size."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.flow.error import FlowError
from headrace.flow.plan.window import CountWindow, TimeWindow, Window
from headrace.flow.plan.work import Emit
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology
from headrace.flow.storm.windowed_bolt import WindowedBolt
from headrace.testing.flow_run import FlowRun


def show(window: Window, emit: Emit) -> None:
    emit(
        [[" ".join(window.tuples["name"].to_pylist())], [" ".join(window.new["name"].to_pylist())]]
    )


def name_and_time(line: str) -> tuple[str, int]:
    name, _, at = line.partition("@")
    return name, int(at or 0)


def run_of(window: CountWindow | TimeWindow, bolt: Any = show) -> FlowRun:
    made = Topology("windows")
    made.spout("lines", TopicSpout("in", brokers="127.0.0.1:1", fields="value STRING"))
    made.bolt("parse", name_and_time, output="name STRING, at BIGINT").shuffle("lines")
    outputs = {"default": "tuples STRING, new STRING", "late": "name STRING, at BIGINT"}
    made.bolt("window", bolt, output=outputs, window=window).global_("parse")
    made.sink("out", TopicSink("out")).shuffle("window")
    made.sink("late", TopicSink("late", value="name")).shuffle("window", "late")
    return FlowRun(made.plan())


def shown(run: FlowRun) -> list[str]:
    return [json.loads(each)["tuples"] for each in run.values("out")]


def test_a_tumbling_count_window_has_each_tuple_once() -> None:
    run = run_of(CountWindow(3))

    run.feed(list("abcd"))
    run.restart()
    run.feed(list("efg"))

    assert shown(run) == ["a b c", "d e f"]


def test_a_sliding_count_window_has_its_new_tuples() -> None:
    run = run_of(CountWindow(4, slide=2))

    run.feed(list("abcdef"))

    assert [tuple(json.loads(each).values()) for each in run.values("out")] == [
        ("a b", "a b"),
        ("a b c d", "c d"),
        ("c d e f", "e f"),
    ]


@settings(deadline=None, max_examples=30)
@given(
    sizes=st.lists(st.integers(1, 7), min_size=1, max_size=6),
    length=st.integers(1, 5),
    slide=st.integers(1, 5),
)
def test_count_windows_do_not_depend_on_how_the_stream_is_cut(
    sizes: list[int], length: int, slide: int
) -> None:
    names = [f"n{number}" for number in range(sum(sizes))]
    whole, cut = run_of(CountWindow(length, slide)), run_of(CountWindow(length, slide))
    whole.feed(names)
    for at, size in enumerate(sizes):
        first = sum(sizes[:at])
        cut.feed(names[first : first + size])

    assert shown(cut) == shown(whole)
    assert shown(whole) == [
        " ".join(names[max(0, end - length) : end]) for end in range(slide, len(names) + 1, slide)
    ]


def test_an_event_time_window_closes_when_a_later_tuple_comes() -> None:
    run = run_of(TimeWindow(10, timestamp="at"))

    run.feed(["a@1000", "c@9999", "b@2000"])
    assert shown(run) == []
    run.feed(["d@10000"])

    assert shown(run) == ["a b c"]


def test_a_lag_lets_tuples_come_out_of_order() -> None:
    run = run_of(TimeWindow(10, timestamp="at", lag_seconds=5, late="late"))

    run.feed(["a@1000", "x@12000"])
    run.feed(["b@8000"])
    run.feed(["y@15000"])

    assert shown(run) == ["a b"]
    assert run.values("late") == []


def test_a_late_tuple_goes_to_the_late_stream_and_into_no_window() -> None:
    run = run_of(TimeWindow(10, timestamp="at", late="late"))
    run.feed(["a@1000", "x@12000"])

    run.feed(["b@3000", "y@25000"])

    assert shown(run) == ["a", "x"]
    assert run.values("late") == ["b"]


@pytest.mark.parametrize("dead_letters", ["dead", None])
def test_a_tuple_without_a_time_makes_no_other_late(dead_letters: str | None) -> None:
    made = Topology("windows", dead_letters=dead_letters)
    made.spout("in", TopicSpout("in", brokers="127.0.0.1:1", fields="at BIGINT", format="json"))
    window = TimeWindow(10, timestamp="at", late="late")
    outputs = {"default": "n BIGINT", "late": "at BIGINT"}
    made.bolt("count", count, output=outputs, window=window).global_("in")
    made.sink("out", TopicSink("out", value="n")).shuffle("count")
    made.sink("late", TopicSink("late", value="at")).shuffle("count", "late")
    run = FlowRun(made.plan())

    def feed(*partitions: list[int | None]) -> None:
        kind = pa.struct([("at", pa.int64())])
        values = [[None if at is None else {"at": at} for at in part] for part in partitions]
        run.feed(*(pa.array(each, kind) for each in values))

    # The source makes a null of a record that it cannot decode.
    batch: list[list[int | None]] = [[*range(0, 60_000, 1_000)], [None, *range(0, 60_000, 1_000)]]
    if dead_letters is None:
        with pytest.raises(ValueError, match="the timestamp at is null"):
            feed(*batch)
        return
    feed(*batch)
    feed([None])
    feed([None, 1, 200_000])

    assert run.values("out") == ["20"] * 6
    assert run.values("late") == ["1"]
    offsets = [
        {header["key"]: header["value"] for header in each["headers"]}["offset"]
        for each in run.records
        if each["topic"] == "dead"
    ]
    assert offsets == [b"0", b"60", b"61"]


def count(window: Window, emit: Emit) -> None:
    emit([[window.tuples.num_rows]])


def test_a_sliding_time_window_shows_a_tuple_several_times() -> None:
    run = run_of(TimeWindow(10, slide_seconds=5, timestamp="at"))

    run.feed(["a@1000", "b@6000", "c@12000", "z@40000"])

    assert shown(run) == ["a", "a b", "b c", "c"]


def test_a_gap_of_years_is_skipped() -> None:
    run = run_of(TimeWindow(1, timestamp="at"))

    run.feed(["a@0", "b@1700000000000"])
    run.feed(["c@1700000001000"])

    assert shown(run) == ["a", "b"]


def test_windows_of_the_clock_close_without_tuples() -> None:
    run = run_of(TimeWindow(10))
    run.feed(["a", "b"])

    run.tick(9)
    assert shown(run) == []
    run.tick(1)
    run.tick(10)

    assert shown(run) == ["a b"]


def test_what_no_window_needs_leaves_the_state() -> None:
    run = run_of(TimeWindow(10, timestamp="at"))

    for batch in range(50):
        run.feed([f"a@{batch * 10_000}"])

    pieces = run.state("window", 0).get("pieces")
    assert len(pieces) == 1


class Picky(WindowedBolt):
    def execute(self, window: Window, emit: Emit) -> None:
        show(window, emit)
        if "bad" in window.tuples["name"].to_pylist():
            raise ValueError("no such window")


def test_tuples_of_a_window_that_raises_become_dead_letters_and_the_stream_goes_on() -> None:
    run = run_of(CountWindow(2), Picky())

    run.feed(["a", "b", "c"])
    run.feed(["bad", "d", "e"])

    assert shown(run) == ["a b", "d e"]
    letters = [each for each in run.records if each["topic"] == "windows-dead-letters"]
    assert [json.loads(each["value"])["name"] for each in letters] == ["c", "bad"]
    assert {"key": "offset", "value": b"2"} in letters[0]["headers"]


@pytest.mark.parametrize(
    ("window", "complaint"),
    [
        (lambda: CountWindow(0), "1 or more"),
        (lambda: TimeWindow(10, lag_seconds=1), "need a timestamp field"),
        (lambda: run_of(TimeWindow(10, timestamp="when")), "names the field 'when'"),
        (lambda: run_of(TimeWindow(10, timestamp="name")), "cannot use name as time"),
        (lambda: run_of(None, Picky()), "needs a window"),  # type: ignore[arg-type]
    ],
)
def test_an_impossible_window_is_reported(window: Any, complaint: str) -> None:
    with pytest.raises(FlowError, match=complaint):
        window()
