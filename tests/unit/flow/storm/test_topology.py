"""Topologies, stage by stage, without Spark."""

import json
from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa
import pytest

from headrace.flow.error import EmitError, FlowError
from headrace.flow.plan.work import Emit, TaskContext
from headrace.flow.storm.bolt import Bolt, StatefulBolt
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology
from headrace.testing.flow_run import FlowRun


def topology(**options: Any) -> Topology:
    made = Topology("test", **options)
    made.spout("lines", TopicSpout("in", brokers="127.0.0.1:1", fields="value STRING"))
    return made


class Name(Bolt):
    """Emits each tuple with the number of the task that it reached."""

    def prepare(self, context: TaskContext) -> None:
        self.task = context.task

    def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
        emit([[self.task] * batch.num_rows, batch["value"]], rows=range(batch.num_rows))


class Tell(StatefulBolt):
    """Emits each tuple with how many its task has seen."""

    def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
        seen = self.state.get("seen", 0)
        emit([[seen + row for row in range(1, batch.num_rows + 1)], batch["value"]])
        self.state.put("seen", seen + batch.num_rows)


def named(feed: list[list[str]], tasks: int, grouping: str, *args: Any) -> list[tuple[int, str]]:
    made = topology()
    inputs = made.bolt("name", Name(), output="task BIGINT, value STRING", parallelism=tasks)
    getattr(inputs, grouping)("lines", *args)
    made.sink("out", TopicSink("out")).shuffle("name")
    run = FlowRun(made.plan())
    run.feed(*feed)
    return [(row["task"], row["value"]) for row in map(json.loads, run.values("out"))]


WORDS = [[f"{word}{n}" for n in range(20) for word in "abcdefgh"] for _ in range(2)]


def by_letter(batch: pa.RecordBatch, tasks: int) -> list[int]:
    return [ord(value[0]) % tasks for value in batch["value"].to_pylist()]


def test_a_fields_grouping_sends_equal_values_to_one_task_and_uses_every_task() -> None:
    found = named(WORDS, 4, "fields", "value")

    tasks = defaultdict(set)
    for task, value in found:
        tasks[value].add(task)
    assert {len(each) for each in tasks.values()} == {1}
    assert {task for task, _ in found} == {0, 1, 2, 3}
    assert Counter(value for _, value in found) == Counter(v for part in WORDS for v in part)


def test_a_fields_grouping_keeps_the_order_of_a_key_within_its_partition() -> None:
    made = topology()
    made.bolt("key", lambda value: [tuple(value.split())], output="key STRING, n STRING").shuffle(
        "lines"
    )
    seen = made.bolt("same", lambda key, n: (key, n), output="key STRING, n STRING", parallelism=3)
    seen.fields("key", "key")
    made.sink("out", TopicSink("out")).shuffle("same")
    run = FlowRun(made.plan())

    run.feed(*([f"k{partition}{n % 5} {n:03}" for n in range(100)] for partition in range(2)))

    order = defaultdict(list)
    for row in map(json.loads, run.values("out")):
        order[row["key"]].append(row["n"])
    assert len(order) == 10
    assert all(numbers == sorted(numbers) and len(numbers) == 20 for numbers in order.values())


def test_a_partial_key_spreads_one_hot_key_over_two_tasks_and_no_more() -> None:
    found = named([["hot"] * 100], 4, "partial_key", "value")

    assert sorted(Counter(task for task, _ in found).values()) == [50, 50]


def test_all_sends_every_tuple_to_every_task() -> None:
    found = named([["a", "b"], ["c"]], 3, "all")

    assert Counter(found) == Counter((task, value) for task in range(3) for value in "abc")


def test_global_sends_every_tuple_once_to_one_task() -> None:
    found = named([["a", "b"], ["c"]], 3, "global_")

    assert sorted(found) == [(0, "a"), (0, "b"), (0, "c")]


def test_a_custom_grouping_sends_tuples_to_the_tasks_that_its_function_returns() -> None:
    found = named([["a", "b"], ["c", "a"]], 2, "custom", by_letter)

    assert sorted(found) == [(0, "b"), (1, "a"), (1, "a"), (1, "c")]


def test_a_custom_grouping_that_names_no_task_is_reported() -> None:
    with pytest.raises(EmitError, match="there are 2"):
        named([["a"]], 2, "custom", lambda batch, tasks: [7] * batch.num_rows)


def test_a_shuffle_to_a_bolt_with_state_uses_all_tasks_evenly() -> None:
    made = topology()
    made.bolt("tell", Tell(), output="n BIGINT, value STRING", parallelism=4).shuffle("lines")
    made.sink("out", TopicSink("out")).shuffle("tell")
    run = FlowRun(made.plan())

    run.feed([str(n) for n in range(100)])

    assert Counter(json.loads(each)["n"] for each in run.values("out")) == Counter(
        {n: 4 for n in range(1, 26)}
    )


@pytest.mark.parametrize("grouping", ["shuffle", "local_or_shuffle", "none"])
def test_a_local_grouping_runs_where_the_tuple_was_made(grouping: str) -> None:
    found = named([["a"], ["b"]], 1, grouping)

    assert sorted(value for _, value in found) == ["a", "b"]


def test_direct_goes_to_the_task_that_the_emitter_names() -> None:
    def send(batch: pa.RecordBatch, emit: Emit) -> None:
        emit([batch["value"]], task=[int(each) for each in batch["value"].to_pylist()])

    made = topology()
    made.bolt("send", send, output="value STRING").shuffle("lines")
    made.bolt("name", Name(), output="task BIGINT, value STRING", parallelism=3).direct("send")
    made.sink("out", TopicSink("out")).shuffle("name")
    run = FlowRun(made.plan())

    run.feed(["2", "0", "2", "1"])

    found = [json.loads(each) for each in run.values("out")]
    assert sorted((row["task"], row["value"]) for row in found) == [
        (0, "0"),
        (1, "1"),
        (2, "2"),
        (2, "2"),
    ]


def test_a_state_is_restored_in_a_new_start() -> None:
    made = topology()
    made.bolt("tell", Tell(), output="n BIGINT, value STRING").global_("lines")
    made.sink("out", TopicSink("out")).shuffle("tell")
    run = FlowRun(made.plan())
    run.feed(["a", "b"])

    run.restart()
    run.feed(["c"])

    assert [json.loads(each)["n"] for each in run.values("out")] == [1, 2, 3]


def test_two_bolts_on_one_stream_read_the_spout_once() -> None:
    made = topology(settings={"metrics.topic": "metrics"})
    made.bolt("one", str.upper, output="value STRING").shuffle("lines")
    made.bolt("two", str.lower, output="value STRING").fields("lines", "value")
    made.sink("upper", TopicSink("upper", value="value")).shuffle("one")
    made.sink("lower", TopicSink("lower", value="value")).shuffle("two")
    run = FlowRun(made.plan())

    run.feed(["Aa", "Bb"])

    metrics = {row["component"]: row for row in map(json.loads, run.values("metrics"))}
    assert run.values("upper") == ["AA", "BB"]
    assert run.values("lower") == ["aa", "bb"]
    assert metrics["lines"]["emitted"] == 2
    assert metrics["one"]["executed"] == metrics["two"]["executed"] == 2


def test_a_bolt_emits_to_several_named_streams() -> None:
    def sort(batch: pa.RecordBatch, emit: Emit) -> None:
        for value in batch["value"].to_pylist():
            emit([[value]], stream="even" if int(value) % 2 == 0 else "odd")

    made = topology()
    made.bolt("sort", sort, output={"even": "n STRING", "odd": "n STRING"}).shuffle("lines")
    made.sink("evens", TopicSink("evens", value="n")).shuffle("sort", "even")
    made.sink("odds", TopicSink("odds", value="n")).shuffle("sort", "odd")
    run = FlowRun(made.plan())

    run.feed(["1", "2", "3", "4"])

    assert (run.values("evens"), run.values("odds")) == (["2", "4"], ["1", "3"])


def test_a_tuple_that_raises_becomes_a_dead_letter_and_the_others_go_on_in_order() -> None:
    made = topology()
    made.bolt("number", int, output="n BIGINT").shuffle("lines")
    made.sink("out", TopicSink("out", value="n")).shuffle("number")
    run = FlowRun(made.plan())

    run.feed(["1", "x", "3", "4", "y"])

    assert run.values("out") == ["1", "3", "4"]
    letters = [each for each in run.records if each["topic"] == "test-dead-letters"]
    assert [json.loads(each["value"]) for each in letters] == [{"value": "x"}, {"value": "y"}]
    headers = {each["key"]: each["value"] for each in letters[1]["headers"]}
    assert headers["component"] == b"number"
    assert headers["error"].startswith(b"ValueError: invalid literal")
    assert (headers["topic"], headers["partition"], headers["offset"]) == (b"in", b"0", b"4")


def test_a_dead_letter_two_bolts_on_still_names_the_record_it_came_from() -> None:
    made = topology()
    made.bolt("split", str.split, output="word STRING").shuffle("lines")
    made.bolt("number", int, output="n BIGINT").fields("split", "word")
    run = FlowRun(made.plan())

    run.feed(["1 2", "3 x 4"])

    (letter,) = run.records
    assert {"key": "offset", "value": b"1"} in letter["headers"]


def test_without_dead_letters_a_bad_tuple_ends_the_topology() -> None:
    made = topology(dead_letters=None)
    made.bolt("number", int, output="n BIGINT").shuffle("lines")

    with pytest.raises(ValueError, match="invalid literal"):
        FlowRun(made.plan()).feed(["x"])


class Flaky(StatefulBolt):
    """Raises in its first call, after it has emitted and put something."""

    calls = 0

    def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
        self.calls += 1
        self.state.put("n", self.state.get("n", 0) + batch.num_rows)
        emit([[self.state.get("n")]])
        if self.calls == 1:
            raise ConnectionError("try again")


def test_a_batch_that_raises_once_is_tried_again_from_a_clean_state() -> None:
    made = topology()
    made.bolt("flaky", Flaky(), output="n BIGINT").global_("lines")
    made.sink("out", TopicSink("out", value="n")).shuffle("flaky")
    run = FlowRun(made.plan())

    run.feed(["a", "b"])

    assert run.values("out") == ["2"]
    assert run.values("test-dead-letters") == []


def test_tasks_in_one_process_do_not_share_attributes() -> None:
    class Hoard(Bolt):
        def __init__(self) -> None:
            self.hoard: list[str] = []

        def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
            self.hoard += batch["value"].to_pylist()
            emit([["".join(self.hoard)]])

    made = topology()
    made.bolt("hoard", Hoard(), output="all STRING", parallelism=2).custom("lines", by_letter)
    made.sink("out", TopicSink("out", value="all")).shuffle("hoard")
    run = FlowRun(made.plan())

    run.feed(["a", "b", "c"])

    assert sorted(run.values("out")) == ["ac", "b"]


@pytest.mark.parametrize(
    ("emitted", "complaint"),
    [
        ([["a"], ["b"]], "emitted 2 columns"),
        ([["a"]], "n does not fit"),
        ([[1, 2], [3]], "emitted 2 columns"),
    ],
)
def test_an_emit_that_does_not_fit_its_declaration_ends_the_topology(
    emitted: Any, complaint: str
) -> None:
    made = topology()
    made.bolt("wrong", lambda batch, emit: emit(emitted), output="n BIGINT").shuffle("lines")

    with pytest.raises(EmitError, match=complaint):
        FlowRun(made.plan()).feed(["a"])


def test_an_emit_to_an_undeclared_stream_is_reported() -> None:
    made = topology()
    wrong = made.bolt("wrong", lambda batch, emit: emit([[1]], stream="side"), output="n BIGINT")
    wrong.shuffle("lines")

    with pytest.raises(FlowError, match="'side', but declares default"):
        FlowRun(made.plan()).feed(["a"])


@pytest.mark.parametrize(
    ("rows", "complaint"),
    [
        ([0, 1], "emitted 1 tuples with 2 rows"),
        ([1], "rows from 1 to 1, but it was given 1"),
        ([-1], "rows from -1"),
        (range(1, 2), "rows from 1"),
        ([None], "rows from"),
    ],
)
def test_rows_that_the_batch_does_not_have_are_reported(rows: Any, complaint: str) -> None:
    made = topology()
    wrong = made.bolt("wrong", lambda batch, emit: emit([[1]], rows=rows), output="n BIGINT")
    wrong.shuffle("lines")

    with pytest.raises(EmitError, match=complaint):
        FlowRun(made.plan()).feed(["a"])


class Strike(StatefulBolt):
    """Emits at each tick what came since the last one."""

    def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
        self.state.put("n", self.state.get("n", 0) + batch.num_rows)

    def tick(self, now_ms: int, emit: Emit) -> None:
        emit([[self.state.get("n", 0)]])
        self.state.put("n", 0)


def test_a_tick_comes_at_its_time_and_again_without_tuples() -> None:
    made = topology()
    made.bolt("strike", Strike(), output="n BIGINT", tick_seconds=10).global_("lines")
    made.sink("out", TopicSink("out", value="n")).shuffle("strike")
    run = FlowRun(made.plan())

    run.feed(["a", "b"])
    run.tick(9)
    assert run.take("out") == []
    run.tick(1)
    assert run.take("out") == ["2"]
    run.tick(10)
    assert run.take("out") == ["0"]
