"""Stops of a flow that is at most once, with a context that stands for Spark's."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.cli.flow.execution import finish
from headrace.flow.execution.planned_stop import PlannedStop
from headrace.flow.execution.skip_unfinished import skip_unfinished, unfinished
from headrace.flow.storage.file_store import LocalFileStore

RUN = "11111111-2222-3333-4444-555555555555"


class Spark:
    """The context and the query of one flow; a look at its status takes one of the steps."""

    def __init__(self, checkpoint: Path) -> None:
        self.store = LocalFileStore(checkpoint)
        self.jobs: list[str | None] = []
        self.cancelled: list[str] = []
        self.runId = RUN
        self.isActive = True
        self.lastProgress: Any = None
        self.steps: list[Callable[[], None]] = []

    @property
    def status(self) -> dict[str, bool]:
        if self.steps:
            self.steps.pop(0)()
        return {"isTriggerActive": True}

    def begin(self, batch: int) -> None:
        self.store.write(f"offsets/{batch}", b"v1")

    def run(self, batch: int) -> None:
        if RUN not in self.cancelled:
            self.jobs.insert(0, f"words\nid = 1\nrunId = {RUN}\nbatch = {batch}")

    def commit(self, batch: int) -> None:
        self.store.write(f"commits/{batch}", b"v1")
        self.lastProgress = {"batchId": batch}

    def stop(self) -> None:
        self.isActive = False

    def listenerBus(self) -> Any:  # noqa: N802 - Java's name
        return SimpleNamespace(waitUntilEmpty=lambda: None)

    def statusStore(self) -> Any:  # noqa: N802 - Java's name
        return SimpleNamespace(jobsList=self._jobs)

    def cancelJobGroupAndFutureJobs(self, group: str) -> None:  # noqa: N802 - Java's name
        self.cancelled.append(group)

    def _jobs(self, states: None) -> Any:
        def described(text: str | None) -> Any:
            option = SimpleNamespace(isDefined=lambda: text is not None, get=lambda: text)
            return SimpleNamespace(description=lambda: option)

        jobs = list(self.jobs)
        return SimpleNamespace(isEmpty=lambda: not jobs, head=lambda: described(jobs[0]))


@pytest.fixture
def spark(tmp_path: Path) -> Spark:
    """Return Spark after the first batch, with the second one planned."""
    spark = Spark(tmp_path)
    spark.begin(0)
    spark.run(0)
    spark.commit(0)
    spark.begin(1)
    return spark


def test_a_batch_that_was_planned_and_not_run_is_run_by_the_next_start(spark: Spark) -> None:
    stop = PlannedStop(spark, spark.store)
    assert stop.hold(spark)
    spark.run(1)
    stop.record(spark)
    skip_unfinished(spark.store, stateful=False)

    assert spark.cancelled == [RUN]
    assert unfinished(spark.store) == [1]


def test_a_batch_that_runs_is_not_interrupted(spark: Spark) -> None:
    spark.run(1)

    assert not PlannedStop(spark, spark.store).hold(spark)
    assert spark.cancelled == []


@pytest.mark.parametrize("description", [None, "a job of the program"])
def test_what_may_have_run_does_not_run_again(spark: Spark, description: str | None) -> None:
    spark.jobs.insert(0, description)
    stop = PlannedStop(spark, spark.store)
    assert not stop.hold(spark)
    stop.record(spark)
    skip_unfinished(spark.store, stateful=False)

    assert unfinished(spark.store) == []


def test_jobs_of_the_query_before_a_restart_do_not_count(spark: Spark) -> None:
    spark.run(1)
    spark.runId = "another"

    assert PlannedStop(spark, spark.store).hold(spark)


def test_a_start_that_failed_does_not_lose_the_batch(spark: Spark) -> None:
    stop = PlannedStop(spark, spark.store)
    stop.record(spark)
    skip_unfinished(spark.store, stateful=False)
    stop.restore()
    skip_unfinished(spark.store, stateful=False)

    assert unfinished(spark.store) == [1]


def test_a_query_that_failed_for_its_refused_jobs_did_not_fail(spark: Spark) -> None:
    stop = PlannedStop(spark, spark.store)
    cancelled = RuntimeError(f"Job 7 cancelled part of cancelled job group {RUN}")
    assert not stop.caused(cancelled)
    stop.hold(spark)

    assert stop.caused(cancelled)
    assert not stop.caused(RuntimeError("the topic is gone"))
    assert not stop.caused(None)


def test_a_query_is_stopped_when_the_next_batch_does_not_run_yet(spark: Spark) -> None:
    stop = PlannedStop(spark, spark.store)
    spark.run(1)

    def end_first() -> None:
        spark.commit(1)
        spark.begin(2)
        spark.run(2)

    def end_second() -> None:
        spark.commit(2)
        spark.begin(3)

    spark.steps = [end_first, end_second]
    finish(spark, hold=stop.hold)
    stop.record(spark)
    skip_unfinished(spark.store, stateful=False)

    assert not spark.isActive
    assert unfinished(spark.store) == [3]
