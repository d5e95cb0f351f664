"""What flows and agents tell, whatever it is: bounded, and made of texts and numbers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from headrace.console.seen_agent import look_at_agent
from headrace.console.seen_flow import look_at_flow


@contextmanager
def serving(body: bytes) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Nothing to tell."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def flow_that_tells(told: Any) -> Any:
    with serving(json.dumps(told).encode()) as url:
        return look_at_flow("count", url)


def test_tables_are_taken_as_they_are() -> None:
    table = {"title": "Rising", "columns": ["page", "change"], "rows": [["/", 12], ["/a", -1.5]]}
    assert flow_that_tells({"tables": [table]}).tables == (table,)


def test_tables_are_bounded() -> None:
    table = {"title": "x" * 9_999, "columns": ["c"] * 14, "rows": [[1] * 14] * 60}
    seen = flow_that_tells({"tables": [table] * 9})
    assert len(seen.tables) == 8
    first = seen.tables[0]
    assert (len(first["title"]), len(first["columns"]), len(first["rows"])) == (300, 12, 50)
    assert all(len(row) == 12 for row in first["rows"])


def test_a_graph_may_come_with_the_figures() -> None:
    graph = {
        "nodes": [{"name": "in", "kind": "spout", "what": "clicks"}, {"name": "out"}],
        "arrows": [{"source": "in", "target": "out"}, {"source": "in", "target": "nowhere"}],
    }
    seen = flow_that_tells({"graph": graph})
    assert [each.name for each in seen.nodes] == ["in", "out"]
    assert seen.arrows == (("in", "out"),)


@pytest.mark.parametrize(
    "told",
    [
        {"tables": 7, "graph": [], "components": "none", "batch": "one"},
        {"tables": [None, {"rows": [7, {"a": 1}], "columns": None}], "graph": {"nodes": [3, {}]}},
        {"batch_ms": float("nan"), "records": 10**400, "components": [{"executed": True}]},
    ],
)
def test_nonsense_becomes_nothing(told: Any) -> None:
    seen = flow_that_tells(told)
    assert (seen.problem, seen.nodes, seen.batch) == (None, (), None)
    assert json.dumps([seen.figures, seen.tables], allow_nan=False)


def test_a_flow_that_does_not_answer_has_a_problem() -> None:
    with serving(b"not json") as url:
        assert look_at_flow("count", url).problem == f"{url}/figures does not serve JSON"
    assert look_at_flow("count", None).problem == "it serves no figures"


def test_an_agent_of_flumes_own_tells_numbers_alone() -> None:
    told = {"CHANNEL.c1": {"Type": "CHANNEL", "ChannelSize": "7", "StartTime": "nan"}, "X.y": {}}
    with serving(json.dumps(told).encode()) as url:
        (part,) = look_at_agent("a1", url).parts
    assert (part.kind, part.name, part.numbers) == ("channel", "c1", {"ChannelSize": 7.0})
    assert (part.channels, part.topics) == ((), ())
