"""Chains, batch by batch, without Spark."""

import json
from typing import Any

import pytest

from headrace.cli.flow.topic import topic_configs
from headrace.flow.error import EmitError, FlowError
from headrace.flow.execution.spark_aggregate import spark_aggregate
from headrace.flow.plan.check_plan import check_plan
from headrace.flow.plan.stage import stage_layout
from headrace.flow.plan.window import CountWindow, TimeWindow
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.trident.aggregator import Aggregator, CombinerAggregator, ReducerAggregator
from headrace.flow.trident.sqlite_state import SqliteState
from headrace.flow.trident.stream import Stream
from headrace.flow.trident.topic_state import TopicState
from headrace.flow.trident.topology import TridentTopology
from headrace.testing.flow_run import FlowRun


class Longest(CombinerAggregator):
    def init(self, word: str) -> str:
        if word == "bad":
            raise ValueError("a bad word")
        return word

    def combine(self, one: str, other: str) -> str:
        return max(one, other, key=lambda word: (len(word), word))


class Joined(ReducerAggregator):
    def init(self) -> str:
        return ""

    def reduce(self, value: str, word: str) -> str:
        return value + word[0]

    def result(self, value: str) -> tuple[str, int]:
        return value, len(value)


class EachLetter(Aggregator):
    """As many tuples as there are letters."""

    def init(self) -> list[str]:
        return []

    def aggregate(self, value: list[str], word: str) -> list[str]:
        value.append(word[0])
        return value

    def complete(self, value: list[str]) -> list[str]:
        return sorted(set(value))


def chain() -> tuple[TridentTopology, Stream]:
    topology = TridentTopology("test")
    spout = TopicSpout("in", brokers="127.0.0.1:1", fields="value STRING")
    return topology, topology.new_stream("lines", spout)


def words() -> tuple[TridentTopology, Stream]:
    topology, lines = chain()
    return topology, lines.flat_map(str.split, output="word STRING")


def batches_of(topology: TridentTopology, *batches: list[list[str]]) -> list[list[Any]]:
    """Return what the topology writes to the topic `out`, batch by batch."""
    run = FlowRun(topology.plan())
    written = []
    for partitions in batches:
        run.feed(*partitions)
        written.append([json.loads(each) for each in run.take("out")])
    return written


def values(rows: list[Any]) -> list[Any]:
    return sorted(tuple(row.values()) for row in rows)


def test_each_appends_filters_and_the_rest_replace() -> None:
    topology, lines = chain()
    seen = (
        lines.flat_map(str.split, output="word STRING")
        .each("word", len, output="letters BIGINT")
        .filter(lambda letters: letters > 1, "letters")
        .each("word", lambda word: word != "no")
        .map(lambda word, letters: (word.upper(), letters * 2), output="loud STRING, n BIGINT")
        .each("loud", lambda loud: [loud[0], loud[-1]], output="edge STRING")
        .peek(lambda *_: None)
        .project("edge", "n")
    )
    seen.to_topic("out")
    assert batches_of(topology, [["ab no c", "xyz"]]) == [
        [{"edge": "A", "n": 4}, {"edge": "B", "n": 4}, {"edge": "X", "n": 6}, {"edge": "Z", "n": 6}]
    ]


def test_an_aggregate_has_one_result_per_batch_for_any_partitions() -> None:
    topology, stream = words()
    stream.aggregate(n="count", least="min(word)").to_topic("out")
    assert batches_of(topology, [["a b", "c"], ["d"]], [["z"]]) == [
        [{"n": 4, "least": "a"}],
        [{"n": 1, "least": "z"}],
    ]


def test_a_partition_aggregate_has_a_result_for_each_task_that_has_tuples() -> None:
    topology, stream = words()
    stream.partition_by("word").each("word", len, output="n BIGINT").parallelism_hint(
        3
    ).partition_aggregate(total="sum(n)").to_topic("out")
    (rows,) = batches_of(topology, [["a b c d e f"], ["g h"]])
    assert 1 < len(rows) <= 3
    assert sum(row["total"] for row in rows) == 8
    topology, stream = words()
    stream.partition_aggregate(n="count").to_topic("out")
    assert batches_of(topology, [["a"], ["b"]]) == [[{"n": 2}]]  # one task without a hint


def test_groups_are_aggregated_apart_by_every_kind_of_aggregator() -> None:
    topology, stream = words()
    grouped = stream.each("word", lambda word: word[-1], output="last STRING").group_by("last")
    grouped.aggregate(n="count").to_topic("out")
    grouped.aggregate(Longest(), "word", output="longest STRING").to_topic("out")
    grouped.aggregate(Joined(), "word", output="heads STRING, n BIGINT").to_topic("out")
    grouped.aggregate(EachLetter(), "word", output="head STRING").to_topic("out")
    (rows,) = batches_of(topology, [["ax bx bbx", "ay"]])
    found = {
        tuple(row): values([each for each in rows if tuple(each) == tuple(row)]) for row in rows
    }
    assert found["last", "longest"] == [("x", "bbx"), ("y", "ay")]
    assert found["last", "heads", "n"] == [("x", "abb", 3), ("y", "a", 1)]
    assert found["last", "head"] == [("x", "a"), ("x", "b"), ("y", "a")]
    assert found["last", "n"] == [("x", 3), ("y", 1)]


def test_a_tuple_that_makes_an_aggregator_raise_is_a_dead_letter_and_the_rest_one_result() -> None:
    topology, stream = words()
    stream.aggregate(Longest(), "word", output="longest STRING").to_topic("out")
    run = FlowRun(topology.plan())
    run.feed(["a bbb", "bad cc"])
    assert [json.loads(each) for each in run.values("out")] == [{"longest": "bbb"}]
    assert [json.loads(each) for each in run.values("test-dead-letters")] == [{"word": "bad"}]


def test_extremes_of_a_batch() -> None:
    topology, stream = words()
    sized = stream.each("word", len, output="n BIGINT")
    sized.min_by("n").to_topic("out")
    sized.max_by("n").to_topic("out")
    assert values(batches_of(topology, [["aa b"], ["cccc"]])[0]) == [("b", 1), ("cccc", 4)]


def test_a_state_in_a_topic_goes_on_after_a_restart_and_can_be_asked() -> None:
    topology, lines = chain()
    counts = (
        lines.flat_map(str.split, output="word STRING")
        .group_by("word")
        .persistent_aggregate(TopicState("counts"), n="count")
        .parallelism_hint(2)
    )
    lines.map(lambda line: line[0], output="letter STRING").state_query(
        counts, "letter", output="found"
    ).to_topic("out")
    run = FlowRun(topology.plan())
    run.feed(["a b a", "x"])
    run.restart()
    run.take("out")
    run.feed(["a", "zz y"])
    assert values([json.loads(each) for each in run.values("out")]) == [("a", 3), ("z", None)]
    last = {row["word"]: row["n"] for row in map(json.loads, run.values("counts"))}
    assert last == {"a": 3, "b": 1, "x": 1, "zz": 1, "y": 1}


def test_measures_in_a_topic_are_aggregated_by_spark_itself() -> None:
    topology, stream = words()
    stream.group_by("word").persistent_aggregate(TopicState("counts"), n="count")
    plan = topology.plan()
    check_plan(plan)
    chosen = spark_aggregate(plan, stage_layout(plan))
    assert chosen is not None
    assert chosen.name == "persistent-aggregate-1"


def test_streams_merge_and_an_aggregate_behind_sees_the_batch_as_one() -> None:
    topology, lines = chain()
    short = lines.filter(lambda line: len(line) < 3)
    long = lines.filter(lambda line: len(line) > 1)
    topology.merge(short, long).aggregate(n="count").to_topic("out")
    assert batches_of(topology, [["a", "bb"], ["ccc"]]) == [[{"n": 4}]]


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        ("inner", [("k", 1, "x")]),
        ("left", [("k", 1, "x"), ("l", 2, None)]),
        ("outer", [("k", 1, "x"), ("l", 2, None), ("r", None, "y")]),
    ],
)
def test_streams_join_within_a_batch(kind: str, found: list[Any]) -> None:
    topology, lines = chain()
    left = lines.filter(lambda line: line[0] == "L").map(
        lambda line: (line[1], int(line[2])), output="key STRING, n BIGINT"
    )
    right = lines.filter(lambda line: line[0] == "R").map(
        lambda line: (line[1], line[2]), output="id STRING, text STRING"
    )
    topology.join(left, "key", right, "id", kind=kind, parallelism=2).to_topic("out")
    first, second = batches_of(topology, [["Lk1", "Rry"], ["Rkx", "Ll2"]], [["Rlz"]])
    assert sorted((tuple(row.values()) for row in first), key=str) == sorted(found, key=str)
    assert all(row.get("n") is None for row in second)  # a join is within a batch


def test_windows_of_tuples_and_of_time() -> None:
    topology, stream = words()
    stream.window(CountWindow(2), n="count", least="min(word)").to_topic("out")
    assert batches_of(topology, [["a b c"]], [["d"]]) == [
        [{"n": 2, "least": "a"}],
        [{"n": 2, "least": "c"}],
    ]
    topology, stream = words()
    timed = stream.each("word", lambda word: int(word[1:]) * 1_000, output="at BIGINT")
    heads = timed.each("word", lambda word: word[0], output="head STRING")
    heads.group_by("head").window(TimeWindow(10, timestamp="at"), n="count").to_topic("out")
    assert [values(each) for each in batches_of(topology, [["a1 a9 b2"]], [["a11"]])] == [
        [],
        [("a", 2), ("b", 1)],
    ]


def test_sessions_end_after_a_pause_and_late_tuples_may_join_two() -> None:
    topology, stream = words()
    timed = stream.each("word", lambda word: int(word[1:]) * 1_000, output="at BIGINT")
    users = timed.each("word", lambda word: word[0], output="user STRING").group_by("user")
    users.session_window(10, "at", lag_seconds=20, n="count").to_topic("out")
    first, second = batches_of(topology, [["a0 a18 a9 b5", "a40"]], [["a100"]])

    def rows(found: list[Any]) -> list[tuple[str, str, str, int]]:
        return sorted(
            (row["user"], row["session_start"][17:19], row["session_end"][17:19], row["n"])
            for row in found
        )

    assert rows(first) == [("b", "05", "05", 1)]  # a's may still grow: the watermark is at 20
    assert rows(second) == [("a", "00", "18", 3), ("a", "40", "40", 1)]


def sessions_of(*batches: list[list[str]], **options: Any) -> FlowRun:
    """Run sessions of words such as a7: user a, second 7; a word without a number has no time."""
    topology, stream = words()
    timed = stream.each("word", second_of, output="at BIGINT")
    users = timed.each("word", lambda word: word[0], output="user STRING").group_by("user")
    users.session_window(2, "at", lag_seconds=5, **options).to_topic("out")
    run = FlowRun(topology.plan())
    for partitions in batches:
        run.feed(*partitions)
    return run


def second_of(word: str) -> tuple[int | None]:
    return (int(word[1:]) * 1_000 if word[1:] else None,)


def test_a_tuple_without_a_time_makes_no_other_late() -> None:
    a, b = (" ".join(f"{user}{at}" for at in range(60)) for user in "ab")

    run = sessions_of([[a], [f"{b} b"]], [["a900 b900 a"], ["c"]], n="count")

    assert [json.loads(each)["n"] for each in run.values("out")] == [60, 60]
    assert len(run.values("test-dead-letters")) == 3


class NoThrees(Joined):
    def result(self, value: str) -> tuple[str, int]:
        if len(value) == 3:
            raise ValueError("three")
        return value, len(value)


def test_a_session_that_raises_becomes_dead_letters_and_the_stream_goes_on() -> None:
    run = sessions_of(
        [["a0 a1 a2 b0"]],
        [["a100 b100"]],
        [["a200 b200"]],
        aggregator=NoThrees(),
        inputs="word",
        output="letters STRING, n BIGINT",
    )

    assert sorted(json.loads(each)["letters"] for each in run.values("out")) == ["a", "b", "b"]
    letters = [json.loads(each)["word"] for each in run.values("test-dead-letters")]
    assert letters == ["a0", "a1", "a2"]


def wrong(make: Any) -> str:
    topology, stream = words()
    with pytest.raises(FlowError) as caught:
        make(topology, stream)
    return str(caught.value)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda t, s: s.each("wrod", len, output="n BIGINT"), "each names the field 'wrod'"),
        (lambda t, s: s.each("word", len, output="word BIGINT"), "has such a field already"),
        (lambda t, s: s.project("n"), "project names the field 'n'"),
        (lambda t, s: s.group_by("n"), "group_by names the field 'n'"),
        (lambda t, s: s.group_by(), "needs the names"),
        (lambda t, s: s.aggregate(), "or measures such as n='count'"),
        (lambda t, s: s.aggregate(n="cuont"), "write one of count"),
        (lambda t, s: s.aggregate(n="sum(word)"), "needs a number"),
        (lambda t, s: s.aggregate(Longest(), "word"), "needs output="),
        (lambda t, s: s.aggregate(Longest, "word", output="x STRING"), "give an object"),
        (
            lambda t, s: s.group_by("word").persistent_aggregate(
                TopicState("x"), EachLetter(), "word", output="x STRING"
            ),
            "needs a CombinerAggregator",
        ),
        (lambda t, s: s.group_by("word").persistent_aggregate("x", n="count"), "is no state"),
        (
            lambda t, s: s.persistent_aggregate(SqliteState("x", "x"), n="count"),
            "write group_by first",
        ),
        (lambda t, s: SqliteState("x", "drop table"), "is no name of a table"),
        (lambda t, s: SqliteState("x", "x", mode="often"), "write non-transactional"),
        (
            lambda t, s: t.merge(s, s.each("word", len, output="n BIGINT")),
            "cannot be merged",
        ),
        (lambda t, s: t.join(s, "word", s, "word", kind="cross"), "write inner, left"),
        (lambda t, s: s.group_by("word").window(CountWindow(2), n="count"), "leave group_by out"),
        (
            lambda t, s: s.group_by("word").session_window(5, "word", n="count"),
            "cannot use word as time",
        ),
        (lambda t, s: TridentTopology("x", guarantee="twice"), "write at-most-once"),
    ],
)
def test_mistakes_are_reported_where_they_are_made(make: Any, said: str) -> None:
    assert said in wrong(make)


def test_a_function_that_returns_other_fields_than_declared_ends_the_chain() -> None:
    topology, stream = words()
    stream.each("word", lambda word: (word, word), output="n STRING").to_topic("out")
    with pytest.raises(EmitError, match="declares 1 new fields and gave 2"):
        batches_of(topology, [["a"]])


def test_repartitioning_carries_tuples_to_the_tasks_it_names() -> None:
    topology, stream = words()
    choose = lambda batch, tasks: [len(word) % tasks for word in batch["word"].to_pylist()]  # noqa: E731
    for carried, tasks in [
        (stream.shuffle(), 2),
        (stream.broadcast(), 2),
        (stream.global_(), 2),
        (stream.partition(choose), 2),
    ]:
        kept = carried.filter(lambda _: True).parallelism_hint(tasks)
        kept.partition_aggregate(n="count").to_topic("out")
    (rows,) = batches_of(topology, [["a bb cc dd"]])
    assert sorted(row["n"] for row in rows) == [1, 2, 2, 3, 4, 4, 4]


def test_an_empty_batch_emits_nothing() -> None:
    topology, stream = words()
    stream.aggregate(n="count").to_topic("out")
    assert batches_of(topology, [[]]) == [[]]


def test_a_states_topic_is_compacted() -> None:
    topology, stream = words()
    stream.group_by("word").persistent_aggregate(TopicState("counts"), n="count")
    assert topic_configs(topology.plan()) == {"counts": {"cleanup.policy": "compact"}}


def test_a_states_record_key_is_a_field_it_has() -> None:
    _, stream = words()
    with pytest.raises(FlowError, match="a TopicState's key names the field 'wrod'"):
        stream.group_by("word").persistent_aggregate(TopicState("counts", "wrod"), n="count")
