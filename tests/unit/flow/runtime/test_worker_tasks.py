"""The bolts that a worker has prepared, and their cleanup."""

from collections import Counter
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from headrace.flow.plan.plan import DEFAULT_STREAM
from headrace.flow.plan.stage import stage_layout
from headrace.flow.plan.work import TaskContext
from headrace.flow.runtime.plan_run import PlanRun
from headrace.flow.runtime.stage_run import StageRun
from headrace.flow.runtime.state_memory import RememberedState
from headrace.flow.runtime.tuple_batch import TupleBatch, no_origin
from headrace.flow.runtime.worker_tasks import WorkerTasks, worker_tasks
from headrace.flow.storm.bolt import Bolt
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology


class Prepared(Bolt):
    """Counts its copies."""

    contexts: ClassVar[list[TaskContext]] = []

    def prepare(self, context: TaskContext) -> None:
        self.contexts.append(context)

    def execute(self, batch: pa.RecordBatch, emit: Any) -> None:
        emit([batch["value"]])


class Tidy(Bolt):
    """Records its cleanup, or raises in it."""

    left: list[str]

    def __init__(self, left: list[str], *, raises: bool) -> None:
        self.left, self.raises = left, raises

    def cleanup(self) -> None:
        if self.raises:
            raise OSError("the connection is gone")
        self.left.append("tidy")


def plan_run(run_id: str, **bolts: Bolt) -> PlanRun:
    topology = Topology("words", dead_letters=None)
    topology.spout("lines", TopicSpout("lines", brokers="b:9092", fields="value STRING"))
    for name, bolt in bolts.items():
        topology.bolt(name, bolt, output="value STRING").shuffle("lines")
        topology.sink(f"{name}-out", TopicSink("out", value="value")).shuffle(name)
    plan = topology.plan()
    return PlanRun(plan, stage_layout(plan), run_id)


def context(run: PlanRun, component: str = "tidy") -> TaskContext:
    return TaskContext(
        plan=run.plan.name,
        component=component,
        task=0,
        tasks=1,
        state=None,
        inputs=(),
        retries=0,
        now_ms=0,
    )


def shared(work: Any) -> Any:
    return work


def test_a_cleanup_that_raises_does_not_stop_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    left: list[str] = []
    run = plan_run("one", broken=Tidy(left, raises=True), tidy=Tidy(left, raises=False))
    tasks = WorkerTasks("words")
    for component in ("broken", "tidy"):
        tasks.prepared(context(run, component), run.component(component).work, shared, shared=False)

    tasks.clear()

    assert left == ["tidy"]
    reported = "cleanup of broken, task 0, raised OSError: the connection is gone"
    assert reported in capsys.readouterr().err


def test_a_run_that_is_dropped_cannot_fail_the_one_that_replaces_it() -> None:
    runs = [plan_run(f"run {each}", tidy=Tidy([], raises=True)) for each in range(6)]

    prepared = [worker_tasks(each) for each in runs]
    for tasks, run in zip(prepared, runs, strict=True):
        tasks.prepared(context(run), run.component("tidy").work, shared, shared=False)
    again = worker_tasks(runs[0])

    assert again is not prepared[0]


def test_a_restart_forgets_the_states_of_the_run_before() -> None:
    before = worker_tasks(plan_run("before"))
    before.states.remember(3, RememberedState(b"stamp", 1, {}))

    worker_tasks(plan_run("after"))

    assert before.states.get(3) is None


def tuples(*values: str) -> TupleBatch:
    return TupleBatch(pa.record_batch({"value": list(values)}), no_origin(len(values)))


def test_a_bolt_that_runs_at_its_feeder_is_prepared_once_per_process() -> None:
    Prepared.contexts.clear()
    run = plan_run("many partitions", upper=Prepared())

    for partition in range(200):
        StageRun(run, partition).spout(run.component("lines"), tuples("a"), DEFAULT_STREAM)

    assert len(Prepared.contexts) == 1


def test_a_bolt_with_tasks_of_its_own_has_a_copy_per_task() -> None:
    run = plan_run("tasks", tidy=Tidy([], raises=False))
    tasks, sent = WorkerTasks("words"), run.component("tidy").work

    first = tasks.prepared(context(run), sent, copy, shared=False)
    second = tasks.prepared(context(run), sent, copy, shared=False)
    other = tasks.prepared(replace(context(run), task=1), sent, copy, shared=False)

    assert first is second
    assert other is not first


def test_partial_key_remembers_the_load_from_batch_to_batch() -> None:
    topology = Topology("hot", dead_letters=None)
    topology.spout("lines", TopicSpout("lines", brokers="b:9092", fields="value STRING"))
    counts = topology.bolt("count", Prepared(), output="value STRING", parallelism=8)
    counts.partial_key("lines", "value")
    topology.sink("out", TopicSink("out", value="value")).shuffle("count")
    plan = topology.plan()
    run = PlanRun(plan, stage_layout(plan), "hot key")
    slots: Counter[int] = Counter()

    for batch in range(100):
        stage = StageRun(run, batch)
        stage.spout(run.component("lines"), tuples("hot"), DEFAULT_STREAM)
        for chunks in stage.finish():
            slots.update(chunks.column("slot").to_pylist())

    assert sorted(slots.values()) == [50, 50]
