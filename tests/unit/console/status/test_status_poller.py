"""The flows and agents that the console polls."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from headrace.console.status.status_poller import StatusPoller
from headrace.flow.monitoring.run_folder import FOLDER_VARIABLE, RunFolder, this_run
from headrace.flow.remote.remote_run import RemoteRun, remote_run
from headrace.model.clock import Clock, ManualClock, SystemClock
from headrace.testing.readiness import wait_until
from testkit.sample.figure_server import FigureServer


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


@contextmanager
def polling(
    clock: Clock | None = None, remote_runs: Sequence[RemoteRun] = (), **flows: str
) -> Iterator[StatusPoller]:
    poller = StatusPoller({}, flows, clock or SystemClock(), 0.05, lambda: remote_runs)
    poller.start()
    try:
        poller.wait_for_first()
        yield poller
    finally:
        poller.stop()


def test_every_batch_is_remembered_once() -> None:
    with FigureServer() as flow:
        flow.serve(batch=1, batch_ms=10, records=5)
        with polling(count=flow.url) as poller:
            wait_until(lambda: len(poller.batches(("count", None))) == 1, what="the first batch")
            flow.serve(batch=2, batch_ms=30)
            wait_until(lambda: len(poller.batches(("count", None))) == 2, what="the second batch")
            batches = poller.batches(("count", None))
    assert [(each.number, each.took_ms, each.records) for each in batches] == [
        (1, 10, 5),
        (2, 30, 5),
    ]


def test_a_flow_of_this_machine_is_found_in_its_registry(folder: Path) -> None:
    graph = {"nodes": [{"name": "in", "kind": "spout", "what": "clicks"}], "arrows": []}
    RunFolder(folder).write(
        this_run(name="count", program="count.py", master="local", brokers="b:1", graph=graph)
    )
    with polling() as poller:
        (flow,) = poller.flows
    assert (flow.name, flow.problem, flow.nodes[0].what) == (
        "count",
        "it serves no figures",
        "clicks",
    )


def test_a_flow_that_never_answers_does_not_delay_the_others() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, FigureServer() as flow:
        flow.serve(batch=1)
        silent_url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with polling(silent=silent_url, count=flow.url) as poller:
            by_name = {each.name: each for each in poller.flows}
    assert by_name["count"].batch == 1
    assert "does not answer" in (by_name["silent"].problem or "")


def test_the_records_of_a_component_become_a_rate() -> None:
    with FigureServer() as flow:
        flow.serve(components=[{"component": "out", "executed": 0}])
        with polling(count=flow.url) as poller:
            flow.serve(components=[{"component": "out", "executed": 500}])
            key = ("flow", "count", "out")
            wait_until(lambda: poller.written.rate(key) > 0, what="a rate")


class SetClock(SystemClock):
    """A machine whose clock is set back a month at every look."""

    _looks = 0

    def wall_ms(self) -> int:
        self._looks += 1
        return super().wall_ms() - self._looks * 30 * 86_400_000


def test_a_clock_that_is_set_does_not_change_the_windows() -> None:
    with polling(SetClock()) as poller:
        first, _ = poller.counts._now
        wait_until(lambda: poller.counts._now[0] > first, what="another poll")
        assert poller.counts._now[0] - first < 86_400_000


def reported(name: str, seen_ms: int) -> RemoteRun:
    run = this_run(name=name, program=f"{name}.py", master="yarn", brokers="b:1")
    report = remote_run(run, application=f"application_{name}", host="elsewhere")
    return replace(report, seen_ms=seen_ms)


def test_flows_of_other_machines_come_with_their_application_and_what_is_wrong() -> None:
    clock = ManualClock(1_000_000)
    runs = [
        reported("count", 1_000_000),
        replace(reported("land", 1_000_000), deaf="no right"),
        reported("gone", 900_000),
    ]
    with polling(clock, runs) as poller:
        flows = poller.flows

    assert [(each.key, each.host) for each in flows] == [
        (("count", "application_count"), "elsewhere"),
        (("land", "application_land"), "elsewhere"),
        (("gone", "application_gone"), "elsewhere"),
    ]
    problems = [each.problem for each in flows]
    assert problems[:2] == [None, "no right"]
    assert problems[2] is not None and problems[2].startswith("it has not reported for 100 s")


def test_a_flow_of_this_machine_that_reports_to_the_brokers_too_comes_once(folder: Path) -> None:
    run = this_run(name="count", program="count.py", master="local", brokers="b:1")
    RunFolder(folder).write(run)
    with polling(
        None, [remote_run(run, application="local-1", host=socket.gethostname())]
    ) as poller:
        assert [(each.pid, each.application) for each in poller.flows] == [(run.pid, None)]
