"""The console's other eye: flows and agents, asked again and again."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.console.neighbourhood import Neighbourhood
from headrace.flow.monitoring.registry import FOLDER_VARIABLE, Registry, this_run
from headrace.model.clock import SystemClock
from headrace.testing.readiness import wait_until
from testkit.sample.figure_server import FigureServer


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    return tmp_path


@contextmanager
def looking(**flows: str) -> Iterator[Neighbourhood]:
    made = Neighbourhood({}, flows, SystemClock(), 0.05)
    made.start()
    try:
        made.wait()
        yield made
    finally:
        made.stop()


def test_every_batch_is_remembered_once() -> None:
    with FigureServer() as flow:
        flow.tell(batch=1, batch_ms=10, records=5)
        with looking(count=flow.url) as seen:
            wait_until(lambda: len(seen.batches(("count", None))) == 1, what="the first batch")
            flow.tell(batch=2, batch_ms=30)
            wait_until(lambda: len(seen.batches(("count", None))) == 2, what="the second batch")
            found = seen.batches(("count", None))
    assert [(each.number, each.took_ms, each.records) for each in found] == [(1, 10, 5), (2, 30, 5)]


def test_a_flow_of_this_machine_is_found_in_its_registry(folder: Path) -> None:
    graph = {"nodes": [{"name": "in", "kind": "spout", "what": "clicks"}], "arrows": []}
    Registry(folder).write(
        this_run(name="count", program="count.py", master="local", brokers="b:1", graph=graph)
    )
    with looking() as seen:
        (flow,) = seen.flows
    assert (flow.name, flow.problem, flow.nodes[0].what) == (
        "count",
        "it serves no figures",
        "clicks",
    )


def test_one_that_never_answers_holds_up_nobody_for_long() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, FigureServer() as flow:
        flow.tell(batch=1)
        silent_url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with looking(silent=silent_url, count=flow.url) as seen:
            by_name = {each.name: each for each in seen.flows}
    assert by_name["count"].batch == 1
    assert "does not answer" in (by_name["silent"].problem or "")


def test_what_components_have_done_becomes_a_rate() -> None:
    with FigureServer() as flow:
        flow.tell(components=[{"component": "out", "executed": 0}])
        with looking(count=flow.url) as seen:
            flow.tell(components=[{"component": "out", "executed": 500}])
            key = ("flow", "count", "out")
            wait_until(lambda: seen.written.rate(key) > 0, what="a rate")
