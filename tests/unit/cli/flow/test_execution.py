"""A flow that other commands change while it runs, with a query that stands for Spark's."""

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

    def exception(self) -> None:
        return None


class Flow:
    """Starts executions over one checkpoint, each in a thread."""

    def __init__(self, folder: Path) -> None:
        self.run_folder = RunFolder(folder / "flows")
        self.activation = Activation(LocalFileStore(folder / "checkpoint"))
        self.queries: list[Query] = []
        self.changes: list[Any] = []
        self.begin: Callable[[], Query] = Query

    @contextmanager
    def running(self) -> Iterator[None]:
        stop = Event()
        execution = self.execution(stop.is_set)
        thread = Thread(target=execution.run)
        thread.start()
        try:
            wait_until(lambda: bool(self.run_folder.runs()), what="the run")
            yield
        finally:
            stop.set()
            thread.join(30)

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
