"""Serves the counters of an agent's components over HTTP, in Flume's JSON and for Prometheus."""

import json
import re
from collections.abc import Callable

from headrace.client.address import Address
from headrace.ingest.agent.assembly import Assembly
from headrace.ingest.agent.wiring import TEXTS, wiring
from headrace.ingest.channel import Channel
from headrace.ingest.component import Component
from headrace.telemetry.http_server import HttpHandler, HttpServer

_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Monotonic numbers get Prometheus's suffix; all other numbers are gauges.
_COUNTED = ("Count", "Fail")
_MAX_CONNECTIONS = 16


def metrics(assembly: Assembly) -> dict[str, dict[str, str]]:
    """Return the counters by "CHANNEL.c1" and so on, as texts, like Flume's `/metrics`; and how the
    parts are connected (`wiring`), which Flume does not serve."""
    values: dict[str, dict[str, str]] = {}
    for kind, components in (
        ("SOURCE", assembly.sources),
        ("CHANNEL", assembly.channels),
        ("SINK", assembly.sinks),
    ):
        for name, component in components.items():
            numbers = _numbers(component)
            values[f"{kind}.{name}"] = {
                "Type": kind,
                **wiring(assembly, kind, name),
                **{key: str(value) for key, value in numbers.items()},
            }
    return values


def _numbers(component: Component) -> dict[str, float]:
    numbers: dict[str, float] = dict(component.counters.snapshot())
    if isinstance(component, Channel):
        size, capacity = component.size, component.capacity
        numbers["ChannelSize"] = size
        numbers["ChannelCapacity"] = capacity
        numbers["ChannelFillPercentage"] = 100.0 * size / capacity if capacity else 0.0
    return numbers


def prometheus_text(assembly: Assembly) -> str:
    """Return the same numbers in Prometheus's format, as `headrace_agent_<kind>_<number>`."""
    samples: dict[str, list[str]] = {}
    for place, numbers in metrics(assembly).items():
        kind, _, name = place.partition(".")
        labels = f'{{agent="{_label(assembly.name)}",name="{_label(name)}"}}'
        for key, value in numbers.items():
            if key in TEXTS:
                continue
            counted = key.endswith(_COUNTED) and key != "OpenConnectionCount"
            base = _WORD.sub("_", key).lower().removesuffix("_count")
            metric = f"headrace_agent_{kind.lower()}_{base}" + ("_total" if counted else "")
            samples.setdefault(metric, []).append(f"{metric}{labels} {value}")
    lines: list[str] = []
    for metric, rows in samples.items():
        lines.append(f"# TYPE {metric} {'counter' if metric.endswith('_total') else 'gauge'}")
        lines += rows
    return "\n".join([*lines, ""])


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


class Monitor:
    """Serves `/metrics` in JSON, or in Prometheus' text to a client that accepts `text/plain`; and
    `/prometheus` always in text.

    Args:
        assembly: returns what to show. It is called per request, because a reload changes it.
    """

    def __init__(self, address: Address, assembly: Callable[[], Assembly]) -> None:
        class Handler(_MonitorHandler):
            source = staticmethod(assembly)

        self._server = HttpServer(
            address.host, address.port, Handler, name="monitor", max_connections=_MAX_CONNECTIONS
        )

    @property
    def port(self) -> int:
        return self._server.port

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.close()


class _MonitorHandler(HttpHandler):
    source: Callable[[], Assembly]

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].rstrip("/")
        wants_text = "text/plain" in self.headers.get("Accept", "")
        if path == "/prometheus" or (path == "/metrics" and wants_text):
            body, kind = prometheus_text(self.source()), "text/plain; version=0.0.4"
        elif path in ("", "/metrics"):
            body, kind = json.dumps(metrics(self.source())), "application/json"
        else:
            self.send_error(404, "there are /metrics and /prometheus")
            return
        self.reply(200, body, {"Content-Type": f"{kind}; charset=utf-8"})
