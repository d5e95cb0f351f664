"""The status of a flow, whatever it serves: bounded, and made of texts and numbers."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from headrace.console.status.flow_status import FlowStatus, fetch_flow_status

Serve = Callable[[bytes], str]
FlowThatServes = Callable[[Any], FlowStatus]


@pytest.fixture
def flow_that_serves(serve: Serve) -> FlowThatServes:
    return lambda figures: fetch_flow_status("count", serve(json.dumps(figures).encode()))


def test_tables_are_taken_as_they_are(flow_that_serves: FlowThatServes) -> None:
    table = {"title": "Rising", "columns": ["page", "change"], "rows": [["/", 12], ["/a", -1.5]]}
    assert flow_that_serves({"tables": [table]}).tables == (table,)


def test_tables_are_bounded(flow_that_serves: FlowThatServes) -> None:
    table = {"title": "x" * 9_999, "columns": ["c"] * 14, "rows": [[1] * 14] * 60}
    status = flow_that_serves({"tables": [table] * 9})
    assert len(status.tables) == 8
    first = status.tables[0]
    assert (len(first["title"]), len(first["columns"]), len(first["rows"])) == (300, 12, 50)
    assert all(len(row) == 12 for row in first["rows"])


def test_a_graph_may_come_with_the_figures(flow_that_serves: FlowThatServes) -> None:
    graph = {
        "nodes": [{"name": "in", "kind": "spout", "what": "clicks"}, {"name": "out"}],
        "arrows": [{"source": "in", "target": "out"}, {"source": "in", "target": "nowhere"}],
    }
    status = flow_that_serves({"graph": graph})
    assert [each.name for each in status.nodes] == ["in", "out"]
    assert status.arrows == (("in", "out"),)


@pytest.mark.parametrize(
    "figures",
    [
        {"tables": 7, "graph": [], "components": "none", "batch": "one"},
        {"tables": [None, {"rows": [7, {"a": 1}], "columns": None}], "graph": {"nodes": [3, {}]}},
        {"batch_ms": float("nan"), "records": 10**400, "components": [{"executed": True}]},
    ],
)
def test_nonsense_becomes_nothing(flow_that_serves: FlowThatServes, figures: Any) -> None:
    status = flow_that_serves(figures)
    assert (status.problem, status.nodes, status.batch) == (None, (), None)
    assert json.dumps([status.figures, status.tables], allow_nan=False)


def test_a_flow_that_does_not_answer_has_a_problem(serve: Serve) -> None:
    url = serve(b"not json")
    assert fetch_flow_status("count", url).problem == f"{url}/figures does not serve JSON"
    assert fetch_flow_status("count", None).problem == "it serves no figures"
