"""A flow that other commands change while it runs, with a query that stands for Spark's."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.cli.flow.execution import Execution
from headrace.cli.flow.flow_run import RunOptions
from headrace.flow.error import FlowError
from headrace.flow.execution.activation import Activation
from headrace.flow.monitoring.activation_request import activate, deactivate
from headrace.flow.monitoring.metrics_server import MetricsServer
from headrace.flow.monitoring.run_folder import FOLDER_VARIABLE, Run, RunFolder
from headrace.flow.storage.file_store import LocalFileStore
from headrace.flow.storage.location import Location
from headrace.testing.readiness import wait_until


class Query:
    """Runs no batch until it is stopped."""

    def __init__(self) -> None:
        self.isActive = True
        self.lastProgress: Any = None
        self.status = {"isTriggerActive": False}

    def stop(self) -> None:
        self.isActive = False

    def exception(self) -> Exception | None:
        return None


class Flow:
    """Starts executions over one checkpoint, each in a thread."""

    def __init__(self, folder: Path) -> None:
        self.run_folder = RunFolder(folder / "flows")
        self.activation = Activation(LocalFileStore(folder / "checkpoint"))
        self.queries: list[Query] = []
        self.changes: list[Any] = []
        self.begin: Callable[[], Query] = Query

        self.failure: Exception | None = None
        self.planned_stop: Any = None

    @contextmanager
    def running(self, **options: Any) -> Iterator[None]:
        stop = Event()
        execution = self.execution(stop.is_set, **options)

        def run() -> None:
            try:
                execution.run()
            except Exception as error:  # noqa: BLE001 - tests look at it
                self.failure = error

        thread = Thread(target=run)
        thread.start()
        try:
            wait_until(lambda: bool(self.run_folder.runs()), what="the run")
            yield
        finally:
            stop.set()
            thread.join(90)

    def execution(self, stopped: Callable[[], bool], **options: Any) -> Execution:
        def begin() -> Query:
            query = self.begin()
            self.queries.append(query)
            return query

        spark = SimpleNamespace(sparkContext=SimpleNamespace(master="local", uiWebUrl=None))
        return Execution(
            name="words",
            options=RunOptions(
                program="words.py", brokers="b:1", checkpoint=Location("words"), **options
            ),
            spark=spark,
            begin=begin,
            change=self.changes.append,
            graph=dict,
            stopped=stopped,
            watch=lambda figures: None,
            metrics=MetricsServer(),
            activation=self.activation,
            planned_stop=self.planned_stop,
            run_folder=self.run_folder,
        )

    @property
    def run(self) -> Run:
        return self.run_folder.find("words")

    @property
    def active_queries(self) -> int:
        return sum(each.isActive for each in self.queries)


@pytest.fixture
def flow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Flow:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "flows"))
    monkeypatch.setattr("headrace.cli.flow.execution._POLL_SECONDS", 0.02)
    monkeypatch.setattr("headrace.flow.monitoring.run_folder._POLL_SECONDS", 0.02)
    return Flow(tmp_path)


def test_an_inactive_flow_has_no_query_until_it_is_activated(flow: Flow) -> None:
    with flow.running():
        assert flow.run.state == "active"
        deactivate("words")
        assert (flow.run.state, flow.active_queries) == ("inactive", 0)
        deactivate("words")
        activate("words")
        assert (flow.run.state, flow.active_queries) == ("active", 1)
        activate("words")
    assert len(flow.queries) == 2


def test_a_deactivated_flow_is_still_inactive_when_it_runs_again(flow: Flow) -> None:
    with flow.running():
        deactivate("words")
    with flow.running():
        assert (flow.run.state, flow.active_queries) == ("inactive", 0)
        activate("words")
    with flow.running():
        assert (flow.run.state, flow.active_queries) == ("active", 1)


def test_an_inactive_flow_is_rebalanced_but_not_started(flow: Flow) -> None:
    with flow.running():
        deactivate("words")
        flow.run_folder.rebalance(flow.run, {"split": 4})
        with pytest.raises(FlowError, match="inactive: activate it instead"):
            flow.run_folder.restart(flow.run)
        assert flow.active_queries == 0
    assert [each["parallelism"] for each in flow.changes] == [{"split": 4}]


def test_a_flow_that_cannot_start_again_stays_inactive(flow: Flow) -> None:
    def refuse() -> Query:
        raise FlowError("the topic lines is gone")

    with flow.running():
        deactivate("words")
        flow.begin = refuse
        with pytest.raises(FlowError, match="the topic lines is gone"):
            activate("words")
        assert (flow.run.state, flow.activation.active) == ("inactive", False)


def test_what_is_there_now_cannot_be_read_by_an_inactive_flow(flow: Flow) -> None:
    flow.activation.deactivate()
    with ExitStack() as stack:
        execution = flow.execution(lambda: False, once=True)
        stack.callback(execution.metrics.close)
        with pytest.raises(FlowError, match="run it without --available-now"):
            execution.run()


def test_a_query_of_an_inactive_checkpoint_is_refused(flow: Flow) -> None:
    flow.activation.check("words")
    flow.activation.deactivate()
    with pytest.raises(FlowError, match="words was deactivated"):
        flow.activation.check("words")


def no_space() -> None:
    raise OSError(28, "No space left on device")


def test_a_full_disk_does_not_end_a_flow_that_is_deactivated(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow.activation, "deactivate", no_space)
    with flow.running():
        with pytest.raises(FlowError, match="No space left on device"):
            deactivate("words")
        assert (flow.run.state, flow.active_queries, flow.activation.active) == ("active", 1, True)
    assert flow.failure is None


def test_an_answer_that_cannot_be_written_does_not_end_the_flow(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = flow.run_folder.answer
    answers: list[object] = []

    def answer_second(*arguments: Any) -> Run:
        answers.append(arguments)
        if len(answers) == 1:
            no_space()
        return answer(*arguments)

    monkeypatch.setattr(flow.run_folder, "answer", answer_second)
    with flow.running():
        with pytest.raises(FlowError, match="did not do it in 1 s"):
            flow.run_folder.ask(flow.run, {"deactivate": True}, seconds=1)
        activate("words")
        assert flow.active_queries == 1
    assert flow.failure is None


@pytest.mark.parametrize("error", [ConnectionRefusedError("no one listens"), ValueError("odd")])
def test_whatever_fails_when_a_flow_is_activated_leaves_it_inactive(
    flow: Flow, error: Exception
) -> None:
    def fail() -> Query:
        raise error

    with flow.running():
        deactivate("words")
        flow.begin = fail
        with pytest.raises(FlowError, match=str(error)):
            activate("words")
        assert (flow.run.state, flow.activation.active) == ("inactive", False)
        flow.begin = Query
        activate("words")
        assert flow.run.state == "active"
    assert flow.failure is None


class Failing(Query):
    """Fails in its last batch."""

    def exception(self) -> Exception | None:
        return None if self.isActive else RuntimeError("the last batch failed")


class Unstoppable(Query):
    """Does not stop the first time."""

    asked = False

    def stop(self) -> None:
        if self.asked:
            super().stop()
            return
        self.asked = True
        raise TimeoutError("the query did not stop")


def test_a_deactivation_that_failed_is_not_in_force_when_the_flow_runs_again(flow: Flow) -> None:
    flow.begin = Failing
    with flow.running(), pytest.raises(FlowError, match="the last batch failed"):
        deactivate("words")
    assert "the last batch failed" in str(flow.failure)
    assert flow.activation.active


def test_a_query_that_does_not_stop_goes_on(flow: Flow) -> None:
    flow.begin = Unstoppable
    with flow.running():
        with pytest.raises(FlowError, match="the query did not stop"):
            deactivate("words")
        assert (flow.run.state, flow.active_queries, flow.activation.active) == ("active", 1, True)
        deactivate("words")
        assert flow.run.state == "inactive"
    assert flow.failure is None


def test_a_query_that_stops_too_late_for_a_request_ends_the_flow_with_a_failure(flow: Flow) -> None:
    flow.begin = Unstoppable
    with flow.running():
        with pytest.raises(FlowError, match="the query did not stop"):
            deactivate("words")
        flow.queries[0].isActive = False
        wait_until(lambda: not flow.run_folder.runs(), what="the end")
    assert "ended late for a request that failed" in str(flow.failure)


def test_a_query_that_does_not_start_again_ends_the_flow_with_the_reason(flow: Flow) -> None:
    def fail() -> Query:
        raise ValueError("odd")

    with flow.running():
        flow.begin = fail
        with pytest.raises(FlowError, match="odd"):
            flow.run_folder.restart(flow.run)
    assert isinstance(flow.failure, FlowError)
    assert "odd" in str(flow.failure)


def test_a_run_that_ends_by_itself_is_not_deactivated(flow: Flow) -> None:
    with flow.running(once=True):
        with pytest.raises(FlowError, match="stop it instead"):
            deactivate("words")
        assert flow.active_queries == 1
    assert flow.activation.active


def test_a_request_to_an_earlier_run_of_the_process_is_dropped(flow: Flow) -> None:
    with flow.running():
        path = flow.run_folder._path(flow.run)
        ticks = flow.run.started_ticks
    request = path.with_suffix(f".{0:032x}.request")
    request.write_text(json.dumps({"id": "1", "started_ticks": ticks, "deactivate": True}))
    with flow.running():
        assert not request.exists()
        activate("words")
        assert len(flow.queries) == 2


class Stop:
    """Stands for what watches the batches of a flow that is at most once."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def hold(self, query: Query) -> bool:
        self.calls.append("hold")
        return True

    def record(self, query: Query) -> None:
        assert not query.isActive
        self.calls.append("record")

    def restore(self) -> None:
        self.calls.append("restore")

    def caused(self, failure: object) -> bool:
        return failure is not None


def test_every_stop_of_a_flow_that_is_at_most_once_is_planned(flow: Flow) -> None:
    def fail() -> Query:
        raise ValueError("odd")

    flow.begin = Failing
    flow.planned_stop = stop = Stop()
    with flow.running():
        flow.run_folder.restart(flow.run)
        deactivate("words")
        flow.begin = fail
        with pytest.raises(FlowError, match="odd"):
            activate("words")
        flow.begin = Failing
        activate("words")
    assert stop.calls == ["hold", "record", "hold", "record", "restore", "hold", "record"]
    assert flow.failure is None
