"""The figures of a run over HTTP, and the place where its tasks' reports arrive.

`/metrics` is for Prometheus, `/figures` for `metrics.read_figures`; with the figures come the
flow's graph and the tables that it has to show, which the console draws.

Example:
    with MetricsServer() as metrics:
        query = start(plan, spark, brokers=brokers, checkpoint=folder, metrics=metrics)
        print(metrics.address)  # for `read_figures`
"""

import json
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

from headrace.flow.monitoring.metrics import FlowFigures, FlowMetrics, prometheus_text
from headrace.flow.monitoring.shown_table import ShownTable
from headrace.flow.runtime.report import MAX_REPORT_BYTES, ReportAddress

# How long a close may have to wait for the thread that takes reports.
_LOOK_SECONDS = 0.2

Progress = Callable[[], Mapping[str, Any] | None]
Tables = Callable[[], Sequence[ShownTable]]


class MetricsServer:
    """One for a run; a query that is started again, after a change, is followed anew.

    Args:
        host, port: where to serve; port 0 is any that is free.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self._token = secrets.token_hex(16)
        self._metrics = FlowMetrics("")
        self._progress: Progress = lambda: None
        self._graph: Mapping[str, Any] | None = None
        self._tables: Tables = tuple
        self._reports: socket.socket | None = None
        self._receiver: Thread | None = None
        self._closed = Event()
        server = self

        class Handler(_Handler):
            figures = staticmethod(lambda: server.figures())
            told = staticmethod(lambda: server.told())

        self._http = ThreadingHTTPServer((host, port), Handler)
        self._http.daemon_threads = True
        Thread(target=self._http.serve_forever, name="flow metrics", daemon=True).start()

    @property
    def address(self) -> str:
        host, port = self._http.server_address[:2]
        return f"{host!s}:{port}"

    def listen(self, host: str) -> ReportAddress:
        """Take reports at an address of this machine that Spark's tasks reach."""
        if self._reports is None:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            self._reports = socket.socket(family, socket.SOCK_DGRAM)
            self._reports.bind((host, 0))
            self._reports.settimeout(_LOOK_SECONDS)
            self._receiver = Thread(target=self._receive, name="flow reports", daemon=True)
            self._receiver.start()
        return ReportAddress(host, self._reports.getsockname()[1], self._token)

    def follow(self, plan: str, progress: Progress) -> None:
        """Serve the figures of this query from now on; counts go on if the plan is the same."""
        if self._metrics.plan != plan:
            self._metrics = FlowMetrics(plan)
        self._progress = progress

    def describe(self, graph: Mapping[str, Any], tables: Tables = tuple) -> None:
        """Serve a picture of the flow, as `Graph.to_json` gives it, and what it has to show.

        Args:
            tables: asked for every answer, in a thread of the server's.
        """
        self._graph = graph
        self._tables = tables

    def told(self) -> str:
        """The figures and everything else, in JSON."""
        tables = [each.to_json() for each in self._tables()]
        return json.dumps({**asdict(self.figures()), "graph": self._graph, "tables": tables})

    def figures(self) -> FlowFigures:
        return self._metrics.figures(self._progress())

    def close(self) -> None:
        self._closed.set()
        self._http.shutdown()
        self._http.server_close()
        if self._receiver is not None:
            self._receiver.join()

    def __enter__(self) -> "MetricsServer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _receive(self) -> None:
        assert self._reports is not None
        with self._reports:
            while not self._closed.is_set():
                with suppress(TimeoutError):
                    self._take(self._reports.recv(MAX_REPORT_BYTES))

    def _take(self, told: bytes) -> None:
        """Anybody can send a datagram: what does not look like a report of ours is dropped."""
        with suppress(ValueError, KeyError, TypeError):
            report = json.loads(told)
            if not secrets.compare_digest(str(report["token"]), self._token):
                return
            for component, *counted in report["rows"]:
                executed, emitted, failed, busy_ns = map(int, counted)
                counts = executed, emitted, failed, busy_ns
                self._metrics.add(int(report["task"]), str(component), counts)


class _Handler(BaseHTTPRequestHandler):
    figures: Callable[[], FlowFigures]
    told: Callable[[], str]
    timeout = 10

    def do_GET(self) -> None:
        if self.path == "/figures":
            self._answer(self.told(), "application/json")
        elif self.path == "/metrics":
            self._answer(prometheus_text(self.figures()), "text/plain; version=0.0.4")
        else:
            self.send_error(404, "there are /metrics and /figures")

    def _answer(self, text: str, kind: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads who asked."""
