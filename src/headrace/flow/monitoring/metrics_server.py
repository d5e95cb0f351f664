"""Serves the figures of a run over HTTP, and receives the reports of its tasks.

`/metrics` is for Prometheus, `/figures` for `metrics.read_figures`; with the figures come the
graph of the flow and the tables that it shows, which the console draws.

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
from threading import Event, Thread
from typing import Any

import structlog

from headrace.flow.monitoring.metrics import FlowFigures, FlowMetrics, prometheus_text
from headrace.flow.monitoring.shown_table import ShownTable
from headrace.flow.runtime.report import MAX_REPORT_BYTES, ReportAddress
from headrace.telemetry.http_server import HttpHandler, HttpServer

# How often the thread that receives reports looks whether the server was closed.
_POLL_SECONDS = 0.2
_log = structlog.get_logger(__name__)

Progress = Callable[[], Mapping[str, Any] | None]
Tables = Callable[[], Sequence[ShownTable]]


class MetricsServer:
    """One per run. A query that is started again after a change is given to `follow` again.

    Args:
        host, port: the address to serve at; port 0 lets the kernel choose.
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
        owner = self

        class Handler(_MetricsHandler):
            metrics = owner

        self._http = HttpServer(host, port, Handler, name="flow-metrics", max_connections=16)
        self._http.start()

    @property
    def address(self) -> str:
        return self._http.address

    def listen(self, bind: str, host: str | None = None) -> ReportAddress | None:
        """Receive reports of tasks; None if that is not possible here.

        The run then has no figures of tasks.

        Args:
            bind: an address of this machine.
            host: the name by which tasks reach it; by default the same.
        """
        if self._reports is None:
            try:
                self._reports = _datagram_socket(bind)
            except OSError as error:
                _log.warning("task_reports_unavailable", bind=bind, error=str(error))
                return None
            self._reports.settimeout(_POLL_SECONDS)
            self._receiver = Thread(target=self._receive, name="flow-reports", daemon=True)
            self._receiver.start()
        return ReportAddress(host or bind, self._reports.getsockname()[1], self._token)

    def serve_query(self, plan: str, progress: Progress) -> None:
        """Serve the figures of this query from now on; counts continue if the plan is the same."""
        if self._metrics.plan != plan:
            self._metrics = FlowMetrics(plan)
        self._progress = progress

    def describe(self, graph: Mapping[str, Any], tables: Tables = tuple) -> None:
        """Serve the graph of the flow, as `Graph.to_json` returns it, and its tables.

        Args:
            tables: called per request, in a thread of the server.
        """
        self._graph = graph
        self._tables = tables

    def figures_json(self) -> str:
        """Return the figures, the graph and the tables in JSON."""
        tables = [each.to_json() for each in self._tables()]
        return json.dumps({**asdict(self.figures()), "graph": self._graph, "tables": tables})

    def figures(self) -> FlowFigures:
        return self._metrics.figures(self._progress())

    def close(self) -> None:
        self._closed.set()
        self._http.close()
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
                    self._add_report(self._reports.recv(MAX_REPORT_BYTES))

    def _add_report(self, datagram: bytes) -> None:
        """Add a report. Any process can send a datagram, so one without our token is dropped,
        whatever it holds: brackets within brackets exceed Python's depth."""
        with suppress(ValueError, KeyError, TypeError, RecursionError, OverflowError):
            report = json.loads(datagram)
            if not secrets.compare_digest(str(report["token"]), self._token):
                return
            for component, *counted in report["rows"]:
                executed, emitted, failed, busy_ns = map(int, counted)
                counts = executed, emitted, failed, busy_ns
                self._metrics.add(int(report["task"]), str(component), counts)


def _datagram_socket(bind: str) -> socket.socket:
    """Return a socket bound to an address or a host's name, with a free port.

    Raises:
        OSError: it is no address of this machine.
    """
    family, _, _, _, address = socket.getaddrinfo(bind, 0, type=socket.SOCK_DGRAM)[0]
    made = socket.socket(family, socket.SOCK_DGRAM)
    try:
        made.bind(address)
    except OSError:
        made.close()
        raise
    return made


class _MetricsHandler(HttpHandler):
    metrics: MetricsServer

    def do_GET(self) -> None:
        if self.path == "/figures":
            self.reply(200, self.metrics.figures_json(), {"Content-Type": "application/json"})
        elif self.path == "/metrics":
            text = prometheus_text(self.metrics.figures())
            self.reply(200, text, {"Content-Type": "text/plain; version=0.0.4"})
        else:
            self.send_error(404, "there are /metrics and /figures")
