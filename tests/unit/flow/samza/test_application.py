"""Applications, batch by batch, without Spark."""

import json
import sys
import time
import types
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from headrace.client.write.partitioner import partition_of
from headrace.flow.error import FlowError
from headrace.flow.plan.check_plan import check_plan
from headrace.flow.samza.application.message import KV
from headrace.flow.samza.application.stream_application import (
    ApplicationDescriptor,
    StreamApplication,
)
from headrace.flow.samza.application.window import Windows
from headrace.flow.samza.checkpoint_start import CheckpointStart
from headrace.flow.samza.config import read_config
from headrace.flow.samza.coordinator import RequestScope
from headrace.flow.samza.envelope import OutgoingMessageEnvelope
from headrace.flow.samza.job import SamzaJob
from headrace.flow.samza.task_work import ControlTopics
from headrace.model.error import ConfigError
from headrace.testing.flow_run import FlowRun

Declare = Callable[[ApplicationDescriptor], Any]
MODULE = "samza_test_application"


def job(declare: Declare, keys: dict[str, str] | None = None) -> SamzaJob:
    """Return the job of an application that a function declares."""

    class Declared(StreamApplication):
        def describe(self, app: ApplicationDescriptor) -> None:
            declare(app)

    module = types.ModuleType(MODULE)
    module.Declared = Declared  # type: ignore[attr-defined]
    sys.modules[MODULE] = module
    texts = {
        "app.name": "app",
        "app.class": f"{MODULE}:Declared",
        "systems.kafka.producer.bootstrap.servers": "127.0.0.1:1",
        "systems.kafka.samza.key.serde": "string",
        "systems.kafka.samza.msg.serde": "json",
        **(keys or {}),
    }
    return SamzaJob(read_config(texts))


def run(declare: Declare, partitions: int = 2, keys: dict[str, str] | None = None) -> FlowRun:
    counts = {"kafka.in": partitions, "kafka.other": partitions}
    return FlowRun(job(declare, keys).plan(counts))


def feed(flow: FlowRun, *records: Any, topic: str = "in", at: int = 0) -> None:
    """Run a batch over records: a value for partition 0, or a dictionary with more."""
    given = [
        each if isinstance(each, dict) and "value" in each else {"value": each} for each in records
    ]
    feed_columns(flow, [{"topic": topic, "at": at, **each} for each in given])


def feed_columns(flow: FlowRun, records: list[dict[str, Any]]) -> None:
    flow.feed(
        [json.dumps(each["value"]).encode() for each in records],
        spout="kafka-inputs",
        topic=pa.array([each["topic"] for each in records]),
        partition=pa.array([each.get("partition", 0) for each in records], pa.int32()),
        key=pa.array([(each.get("key") or "").encode() or None for each in records], pa.binary()),
        timestamp=pa.array([each["at"] for each in records], pa.timestamp("ms", "UTC")),
    )


def values(flow: FlowRun, topic: str = "out") -> list[Any]:
    return [json.loads(each) for each in flow.take(topic)]


def count(_message: Any, before: int) -> int:
    return before + 1


def zero() -> int:
    return 0


def pane(pane: Any) -> KV:
    return KV(str(pane.key), [pane.key, pane.message, pane.start_ms, pane.end_ms])


class TestStateless:
    def test_messages_go_through_operators_in_their_order(self) -> None:
        def declare(app: ApplicationDescriptor) -> None:
            words = app.input_stream("kafka.in").flat_map(str.split)
            long = words.filter(lambda word: len(word) > 1).map(str.upper)
            long.send_to(app.output_stream("kafka.out"))
            words.map(lambda word: None if word == "b" else word).send_to(
                app.output_stream("kafka.all")
            )

        flow = run(declare)
        feed(flow, "a bc", "def b")

        assert values(flow) == ["BC", "DEF"]
        assert values(flow, "all") == ["a", "bc", "def"]

    def test_a_keyed_input_and_a_pair_have_the_records_key(self) -> None:
        def declare(app: ApplicationDescriptor) -> None:
            pairs = app.input_stream("kafka.in", keyed=True)
            swapped = pairs.map(lambda pair: KV(pair.value, pair.key))
            swapped.send_to(app.output_stream("kafka.out"))

        flow = run(declare)
        feed(flow, {"key": "k", "value": "v"}, {"value": "w"})

        assert [(each["key"], each["value"]) for each in flow.records] == [
            (b"v", b'"k"'),
            (b"w", None),
        ]

    def test_without_state_it_runs_where_records_are_read(self) -> None:
        def declare(app: ApplicationDescriptor) -> None:
            app.input_stream("kafka.in").send_to(app.output_stream("kafka.out"))

        flow = run(declare)

        assert len(flow._layout.stages) == 1

    def test_a_function_object_is_set_up_and_closed(self) -> None:
        flow = run(
            lambda app: (
                app.input_stream("kafka.in").map(Prefixed()).send_to(app.output_stream("kafka.out"))
            ),
            keys={"prefix": "> "},
        )
        feed(flow, "a")

        assert values(flow) == ["> a"]

    def test_a_sink_sends_and_asks_for_the_end(self) -> None:
        def declare(app: ApplicationDescriptor) -> None:
            app.input_stream("kafka.in").sink(end_or_send)

        made = job(declare)
        control = ControlTopics(coordinator="requests")
        flow = FlowRun(made._plan({"kafka.in": 2}, control, CheckpointStart()))
        feed(flow, "a", {"value": "end", "partition": 1})

        assert values(flow) == ["a"]
        assert values(flow, "requests") == [
            {"task": 1, "shutdown": RequestScope.CURRENT_TASK.value}
        ]

    def test_what_a_serde_cannot_read_or_a_function_raises_for_can_be_left_out(self) -> None:
        def declare(app: ApplicationDescriptor) -> None:
            app.input_stream("kafka.in").map(lambda n: 10 // n).send_to(
                app.output_stream("kafka.out")
            )

        keys = {
            "systems.kafka.streams.in.samza.msg.serde": "long",
            "task.drop.deserialization.errors": "true",
            "task.ignored.exceptions": "ArithmeticError",
        }
        flow = run(declare, keys=keys)
        flow.feed(
            [(5).to_bytes(8, "big"), b"bad", bytes(8)],
            spout="kafka-inputs",
            key=pa.nulls(3, pa.binary()),
            timestamp=pa.array([0, 0, 0], pa.timestamp("ms", "UTC")),
        )

        assert values(flow) == [2]


class Prefixed:
    """A function with `init`, which sees the job's configuration."""

    def init(self, context: Any) -> None:
        self.prefix = context.config["prefix"]

    def __call__(self, message: str) -> str:
        return self.prefix + message


def end_or_send(message: str, collector: Any, coordinator: Any) -> None:
    if message == "end":
        coordinator.shutdown()
    else:
        collector.send(OutgoingMessageEnvelope("kafka.out", message))


class TestMoved:
    def test_messages_with_the_same_key_come_to_the_task_of_kafkas_partition(self) -> None:
        def declare(app: ApplicationDescriptor) -> None:
            moved = app.input_stream("kafka.in").partition_by(lambda each: each[0], name="by-first")
            moved.sink(send_with_task())

        flow = run(declare, partitions=6)
        feed(flow, ["alice", 1], {"value": ["bob", 2], "partition": 3}, ["alice", 3])

        sent = values(flow)
        assert [each[:2] for each in sent if each[0] == "alice"] == [["alice", 1], ["alice", 3]]
        assert {each[2] for each in sent if each[0] == "alice"} == {3}  # murmur2, modulo 6
        assert "by-first" in flow._plan.components

    def test_a_broadcast_comes_to_all_tasks(self) -> None:
        def declare(app: ApplicationDescriptor) -> None:
            app.input_stream("kafka.in").broadcast().sink(send_with_task())

        flow = run(declare, partitions=3)
        feed(flow, ["x", 1])

        assert sorted(values(flow)) == [["x", 1, task] for task in range(3)]

    def test_a_key_of_a_wrong_type_is_reported(self) -> None:
        flow = run(
            lambda app: (
                app.input_stream("kafka.in")
                .partition_by(lambda each: object())
                .send_to(app.output_stream("kafka.out"))
            )
        )

        with pytest.raises(TypeError, match="cannot be a key of partition_by: return a text"):
            feed(flow, "a")

    def test_merged_streams_come_in_the_order_of_their_times(self) -> None:
        def declare(app: ApplicationDescriptor) -> None:
            first = app.input_stream("kafka.in").map(lambda each: f"in {each}")
            both = first.merge(app.input_stream("kafka.other").map(lambda each: f"other {each}"))
            both.partition_by(lambda each: "all").map(lambda pair: pair.value).send_to(
                app.output_stream("kafka.out")
            )

        flow = run(declare)
        rows = [("other", 1, 30), ("in", 1, 20), ("in", 2, 10), ("other", 2, 40), ("in", 3, 35)]
        feed_columns(flow, [{"topic": t, "value": v, "at": at} for t, v, at in rows])

        # The second of `in` is older than the first, but behind it in its partition.
        assert values(flow) == ["in 1", "in 2", "other 1", "in 3", "other 2"]


def send_with_task() -> Any:
    return SendWithTask()


class SendWithTask:
    def init(self, context: Any) -> None:
        self.task = context.task

    def __call__(self, message: Any, collector: Any, coordinator: Any) -> None:
        value = message.value if isinstance(message, KV) else message
        collector.send(OutgoingMessageEnvelope("kafka.out", [*value, self.task]))


class TestWindow:
    def test_tumbling_windows_of_keys_close_by_the_clock_and_survive_a_restart(self) -> None:
        def declare(app: ApplicationDescriptor) -> None:
            window = Windows.keyed_tumbling_window(lambda pair: pair.key, 10, zero, count)
            counted = app.input_stream("kafka.in").partition_by(str).window(window)
            counted.map(pane).send_to(app.output_stream("kafka.out"))

        flow = run(declare)
        feed(flow, "a", "b", {"value": "a", "partition": 1})
        flow.restart()
        feed(flow, "a")
        flow.tick(5)
        assert values(flow) == []
        flow.tick(6)

        assert sorted(values(flow)) == [
            ["a", 3, 1_000_000, 1_010_000],
            ["b", 1, 1_000_000, 1_010_000],
        ]
        flow.tick(20)
        assert values(flow) == []

    def test_without_a_fold_a_window_has_the_messages_of_its_task(self) -> None:
        def declare(app: ApplicationDescriptor) -> None:
            panes = app.input_stream("kafka.in").window(Windows.tumbling_window(10))
            panes.map(lambda each: [each.key, each.message]).send_to(app.output_stream("kafka.out"))

        flow = run(declare)
        feed(flow, "a", "b", {"value": "c", "partition": 1})
        feed(flow, "d")
        flow.tick(11)

        assert sorted(values(flow)) == [[None, ["a", "b", "d"]], [None, ["c"]]]

    def test_a_session_ends_with_a_pause(self) -> None:
        def declare(app: ApplicationDescriptor) -> None:
            window = Windows.keyed_session_window(str, 10, zero, count)
            app.input_stream("kafka.in").window(window).map(pane).send_to(
                app.output_stream("kafka.out")
            )

        flow = run(declare, partitions=1)
        feed(flow, "a")
        flow.tick(6)
        feed(flow, "a", "b")
        flow.tick(6)
        assert values(flow) == []
        flow.tick(5)

        assert values(flow) == [["a", 2, 1_000_000, 1_006_000], ["b", 1, 1_006_000, 1_006_000]]

    def test_event_time_waits_for_the_lag_and_drops_what_is_late(self) -> None:
        def declare(app: ApplicationDescriptor) -> None:
            window = Windows.keyed_tumbling_window(
                lambda each: each[0], 10, zero, count, timestamp=lambda each: each[1], lag_seconds=5
            )
            app.input_stream("kafka.in").window(window).map(pane).send_to(
                app.output_stream("kafka.out")
            )

        flow = run(declare, partitions=1)
        feed(flow, ["a", 9_000], ["a", 14_000])
        feed(flow, ["a", 8_000])
        assert values(flow) == []
        feed(flow, ["b", 15_000], ["a", 1_000])
        assert values(flow) == [["a", 3, 0, 10_000]]  # the last one came with what closed it
        feed(flow, ["a", 2_000], ["c", 30_000])

        assert values(flow) == [["a", 1, 10_000, 20_000], ["b", 1, 10_000, 20_000]]

    def test_a_message_that_raises_makes_no_other_late(self) -> None:
        def declare(app: ApplicationDescriptor) -> None:
            window = Windows.keyed_tumbling_window(
                lambda each: each[0], 10, zero, count, timestamp=lambda each: each[1]
            )
            app.input_stream("kafka.in").window(window).map(pane).send_to(
                app.output_stream("kafka.out")
            )

        flow = run(declare, partitions=1, keys={"headrace.dead.letters": "dead"})
        feed(flow, ["a", 20_000], ["a", 20_001], ["a", 1_000], ["a", None], ["a", 2_000])

        assert values(flow) == [["a", 2, 0, 10_000]]
        assert len(flow.values("dead")) == 1

    def test_a_late_message_joins_two_sessions_in_event_time(self) -> None:
        def declare(app: ApplicationDescriptor) -> None:
            window = Windows.keyed_session_window(
                lambda each: each[0],
                10,
                list,
                lambda each, seen: [*seen, each[1]],
                timestamp=lambda each: each[1],
                lag_seconds=30,
            )
            app.input_stream("kafka.in").window(window).map(pane).send_to(
                app.output_stream("kafka.out")
            )

        flow = run(declare, partitions=1)
        feed(flow, ["a", 0], ["a", 15_000])
        feed(flow, ["a", 8_000], ["b", 60_000])

        assert values(flow) == [["a", [0, 8_000, 15_000], 0, 15_000]]

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: Windows.tumbling_window(0), "a millisecond or longer"),
            (lambda: Windows.tumbling_window(1, zero), "write both or none"),
            (lambda: Windows.tumbling_window(1, lag_seconds=1), "give timestamp too"),
            (lambda: Windows.keyed_session_window("page", 1), "'page', which is no function"),
        ],
    )
    def test_a_wrong_window_is_refused(self, make: Callable[[], Any], words: str) -> None:
        with pytest.raises(FlowError, match=words):
            make()


def views_and_clicks(app: ApplicationDescriptor) -> None:
    views = app.input_stream("kafka.in", keyed=True)
    clicks = app.input_stream("kafka.other", keyed=True)
    joined = views.join(clicks, lambda one, two: [one.value, two.value], within_seconds=10)
    joined.send_to(app.output_stream("kafka.out"))


class TestJoin:
    def test_a_message_meets_the_last_one_of_its_key_within_the_time(self) -> None:
        flow = run(views_and_clicks)
        rows = [
            ("in", "a", "view 1", 0),
            ("other", "a", "click 1", 5_000),
            ("in", "a", "view 2", 6_000),
            ("other", "b", "click 2", 6_000),
            ("other", "a", "click 3", 16_001),
        ]
        feed_columns(
            flow, [dict(zip(("topic", "key", "value", "at"), row, strict=True)) for row in rows]
        )
        feed(flow, {"key": "b", "value": "view 3"}, at=16_000)

        assert values(flow) == [["view 1", "click 1"], ["view 2", "click 1"], ["view 3", "click 2"]]

    def test_batches_of_any_size_give_the_same(self) -> None:
        rows = [
            {"topic": topic, "key": "k", "value": n, "at": n * 1_000}
            for n, topic in enumerate(["in", "in", "other", "in", "other", "other", "in"])
        ]
        whole, single = run(views_and_clicks), run(views_and_clicks)
        feed_columns(whole, rows)
        for each in rows:
            feed_columns(single, [each])

        assert values(whole) == values(single) == [[1, 2], [3, 2], [3, 4], [3, 5], [6, 5]]

    def test_a_message_is_forgotten_when_it_is_old_by_its_time_and_by_the_clock(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        flow = run(views_and_clicks, partitions=1)
        now_ms = [1_000_000]
        monkeypatch.setattr(time, "time_ns", lambda: now_ms[0] * 1_000_000)
        kept = ("join-1", "side", 0, "a")
        feed(flow, {"key": "a", "value": 1}, at=0)
        feed(flow, {"key": "b", "value": 2}, at=20_000)
        assert kept in flow.state("Declared", 0)  # the other stream may be behind

        now_ms[0] += 10_001
        feed(flow, {"key": "c", "value": 3}, at=30_000)
        assert kept not in flow.state("Declared", 0)
        assert ("join-1", "side", 0, "c") in flow.state("Declared", 0)

    def test_a_table_is_joined_by_key(self) -> None:
        def declare(app: ApplicationDescriptor) -> None:
            profiles = app.table("profiles")
            app.input_stream("kafka.other", keyed=True).send_to(profiles)
            views = app.input_stream("kafka.in")
            named = views.join(profiles, lambda view, name: [view, name], key=lambda view: view)
            named.send_to(app.output_stream("kafka.out"))

        flow = run(declare)
        feed(flow, {"key": "u1", "value": "Ann"}, topic="other")
        feed(flow, "u1", "u2")
        feed(flow, {"key": "u1", "value": None}, topic="other")
        flow.restart()
        feed(flow, "u1")

        assert values(flow) == [["u1", "Ann"], ["u2", None], ["u1", None]]

    def test_a_table_behind_partition_by_gets_its_joins_there(self) -> None:
        def declare(app: ApplicationDescriptor) -> None:
            profiles = app.table("profiles")
            app.input_stream("kafka.other").partition_by(
                lambda each: each[0], lambda each: each[1]
            ).send_to(profiles)
            views = app.input_stream("kafka.in").partition_by(str, name="views-by-user")
            views.join(profiles, lambda view, name: [view.key, name]).send_to(
                app.output_stream("kafka.out")
            )

        flow = run(declare, partitions=4)
        feed(flow, ["u1", "Ann"], {"value": ["u2", "Bob"], "partition": 2}, topic="other")
        feed(flow, {"value": "u1", "partition": 3}, "u2")

        assert sorted(values(flow)) == [["u1", "Ann"], ["u2", "Bob"]]

    def test_inputs_with_different_partitions_are_refused(self) -> None:
        with pytest.raises(
            FlowError, match=r"the join join-1 .*in has 2 partitions, kafka.other has 3"
        ):
            job(views_and_clicks).plan({"kafka.in": 2, "kafka.other": 3})

    def test_an_input_and_what_was_moved_need_as_many_tasks(self) -> None:
        def declare(app: ApplicationDescriptor) -> None:
            moved = app.input_stream("kafka.other").partition_by(str)
            app.input_stream("kafka.in", keyed=True).join(
                moved, lambda one, two: [one.value, two.value], within_seconds=5
            ).send_to(app.output_stream("kafka.out"))

        flow = run(declare)
        feed_columns(
            flow,
            [
                {
                    "topic": "in",
                    "key": "k",
                    "value": 1,
                    "at": 0,
                    "partition": partition_of(b"k", 2),
                },
                {"topic": "other", "value": "k", "at": 0},
            ],
        )
        assert values(flow) == [[1, "k"]]
        with pytest.raises(FlowError, match="there are 4 tasks behind partition_by"):
            keys = {"job.intermediate.stream.partitions": "4"}
            job(declare, keys).plan({"kafka.in": 2, "kafka.other": 2})

    def test_a_table_fed_by_its_own_moved_joins_is_refused(self) -> None:
        def declare(app: ApplicationDescriptor) -> None:
            table = app.table("t")
            joined = app.input_stream("kafka.in", keyed=True).join(table, lambda one, two: one)
            joined.partition_by(lambda each: each.key).send_to(table)

        with pytest.raises(FlowError, match="the table t is written by messages"):
            job(declare)


class TestCheckpoint:
    def test_tasks_behind_partition_by_stay_as_many_when_inputs_grow(self) -> None:
        def declare(app: ApplicationDescriptor) -> None:
            window = Windows.tumbling_window(10)
            app.input_stream("kafka.in").partition_by(str, name="moved").window(window)

        made = job(declare)
        began = CheckpointStart(tasks=made._state_tasks(made.plan({"kafka.in": 2})))
        grown = made._plan({"kafka.in": 5}, ControlTopics(), began)

        assert began.tasks == {"moved": 2}
        assert grown.components["moved"].parallelism == 2
        began.check_tasks(made._state_tasks(grown))

    def test_state_in_other_places_is_refused(self) -> None:
        began = CheckpointStart(tasks={"moved": 2, "App": 4})

        began.check_tasks({"moved": 2, "App": 6})
        began.check_tasks({"moved": 2, "App": 4, "more": 2})
        for other in ({"moved": 3, "App": 4}, {"App": 4}, {"moved": 2, "new": 2, "App": 4}):
            with pytest.raises(FlowError, match="start it with a new checkpoint"):
                began.check_tasks(other)


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda app: None, "Declared reads nothing"),
        (lambda app: app.input_stream("kafka.in").map(3), "map takes a function"),
        (lambda app: app.input_stream("kafka.in").send_to("kafka.out"), "write app.output_stream"),
        (lambda app: app.input_stream("kafka.in").window(60), "takes what Windows makes"),
        (lambda app: app.input_stream("kafka.in").merge(), "one stream more"),
        (
            lambda app: app.input_stream("kafka.in").partition_by(str, serde="txt"),
            "no serde 'txt'",
        ),
        (
            lambda app: app.input_stream("kafka.in").join(app.input_stream("kafka.other"), max),
            "needs within_seconds",
        ),
        (
            lambda app: [app.input_stream("kafka.in"), app.input_stream("kafka.in")],
            "is an input twice",
        ),
        (
            lambda app: app.input_stream("kafka.in").map(str, name="x").map(str, name="x"),
            "two operators are called 'x'",
        ),
    ],
)
def test_a_wrong_operator_is_refused(declare: Declare, words: str) -> None:
    with pytest.raises(FlowError, match=words):
        job(declare)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"task.inputs": "kafka.in"}, "the application names its inputs itself"),
        ({"task.class": "a:B"}, "leave out one of the two"),
        ({"task.checkpoint.factory": "kafka"}, "in Spark's checkpoint"),
        ({"stores.s.key.serde": "string"}, "without stores"),
        ({"app.class": "com.acme.Views"}, "write it as module:Class"),
        ({"app.class": "headrace.flow.samza.task:StreamTask"}, "is no StreamApplication"),
        ({"app.clas": "a:B"}, "did you mean app.class"),
    ],
)
def test_a_wrong_key_is_reported_in_one_sentence(keys: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        job(lambda app: app.input_stream("kafka.in"), keys)


def test_streams_have_the_names_and_serdes_of_the_configuration() -> None:
    def declare(app: ApplicationDescriptor) -> None:
        app.input_stream("views").send_to(app.output_stream("kafka.out"))

    keys = {
        "streams.views.samza.system": "kafka",
        "streams.views.samza.physical.name": "page-views",
        "streams.views.samza.offset.default": "oldest",
        "app.runner.class": "org.apache.samza.runtime.RemoteApplicationRunner",
    }
    made = job(declare, keys)
    plan = made.plan({"kafka.page-views": 3})

    check_plan(plan)
    assert plan.components["kafka-inputs"].work.topics == ("page-views",)
    assert list(plan.components) == ["kafka-inputs", "Declared", "topics"]
    with pytest.raises(ConfigError, match=r"describe has 'files.in', but there is no system"):
        job(lambda app: app.input_stream("files.in"))
