"""A flow as Storm's UI describes a topology: the fields of its REST API.

Names, types and units are Storm's, so that what reads `/api/v1/` of a Storm UI reads this. A sink
is one of the bolts. Where Storm has something that Spark does differently:

- a worker is the process of the flow's driver, an executor is a task;
- `acked` is what was executed and did not fail; of a spout, what it emitted;
- `completeLatency` is the time of the last batch: a tuple is complete when its batch is;
- `processLatency` is the time per tuple, as `executeLatency` is;
- memory, CPU and errors are not known here: zero, and empty.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlsplit

from headrace.console.status.flow_status import FlowNode, FlowStatus
from headrace.console.status.window_counts import WINDOWS, Counts
from headrace.model.error import InvalidArgument

ALL_TIME: Final = ":all-time"
_NO_ID: Final = re.compile(r"[^A-Za-z0-9._-]")
_RESOURCES: Final = (
    *("requestedMemOnHeap", "requestedMemOffHeap", "requestedTotalMem", "requestedCpu"),
    *("assignedMemOnHeap", "assignedMemOffHeap", "assignedTotalMem", "assignedCpu"),
)
_NO_ERROR: Final = {
    "lastError": "",
    "errorHost": "",
    "errorPort": None,
    "errorTime": None,
    "errorLapsedSecs": None,
    "errorWorkerLogLink": "",
}
_STREAM: Final = "default"


def topology_id(name: str, pid: int | None, started_ms: int | None) -> str:
    """Return the id of a flow, as Storm makes one: name, number and the second it began.

    A name may have characters that end a part of a path; the id has their numbers there.
    """
    safe = _NO_ID.sub(lambda found: f"~{ord(found[0]):x}~", name)
    return f"{safe}-{pid or 0}-{(started_ms or 0) // 1000}"


def uptime_text(seconds: int) -> str:
    """Return a duration in Storm's words: 1d 2h 0m 5s."""
    parts: list[str] = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= size or parts:
            parts.append(f"{seconds // size}{unit}")
            seconds %= size
    return " ".join([*parts, f"{seconds}s"])


def window_named(text: str | None) -> int | None:
    """Return the window that a request asks for, in seconds; None: since the start.

    Of another duration, it is the next longer one.

    Raises:
        InvalidArgument: it is no duration.
    """
    if not text or text == ALL_TIME:
        return None
    if not (text.isascii() and text.isdigit()):
        known = ", ".join(map(str, WINDOWS))
        raise InvalidArgument(f"window is {text[:40]!r}: write {known} or {ALL_TIME}")
    # More digits than a number may have that Python reads.
    seconds = int(text) if len(text) < 18 else WINDOWS[-1] + 1
    return next((each for each in WINDOWS if each >= seconds), None)


@dataclass(frozen=True, slots=True)
class StormTopology:
    """One flow.

    Args:
        counts: what a component counted within a window; None: since the start.
        host: the name of this machine.
    """

    flow: FlowStatus
    counts: Callable[[str, int | None], Counts]
    now_ms: int
    host: str

    @property
    def id(self) -> str:
        return topology_id(self.flow.name, self.flow.pid, self.flow.started_ms)

    @property
    def tasks(self) -> int:
        return sum(each.parallelism for each in self.flow.nodes)

    def summary(self) -> dict[str, Any]:
        """Return the fields of `topology/summary`."""
        return {
            "id": self.id,
            "encodedId": quote(self.id, safe=""),
            "name": self.flow.name,
            "owner": "",
            "status": self._status,
            **self._uptime(),
            "tasksTotal": self.tasks,
            "executorsTotal": self.tasks,
            "workersTotal": 1,
            "replicationCount": 1,
            **dict.fromkeys(_RESOURCES, 0.0),
        }

    def detail(self, window: int | None) -> dict[str, Any]:
        """Return the fields of `topology/<id>`."""
        nodes = self.flow.nodes
        return {
            **self.summary(),
            "msgTimeout": 0,
            "window": _window_text(window),
            "windowHint": _hint(window),
            "schedulerDisplayResource": False,
            "debug": False,
            "samplingPct": 0.0,
            "topologyStats": [self._topology_stats(each) for each in (*WINDOWS, None)],
            "spouts": [self._spout(each, window) for each in nodes if each.kind == "spout"],
            "bolts": [self._bolt(each, window) for each in nodes if each.kind != "spout"],
            "workers": [self.worker()],
            "configuration": {
                "topology.name": self.flow.name,
                "storm.id": self.id,
                "spark.master": self.flow.master,
                "checkpoint": self.flow.checkpoint,
            },
        }

    def metrics(self, window: int | None) -> dict[str, Any]:
        """Return the fields of `topology/<id>/metrics`: each component's counts by stream."""
        nodes = self.flow.nodes
        return {
            "window": _window_text(window),
            "window-hint": _hint(window),
            "spouts": [self._metrics(each, window) for each in nodes if each.kind == "spout"],
            "bolts": [self._metrics(each, window) for each in nodes if each.kind != "spout"],
        }

    def component(self, name: str, window: int | None) -> dict[str, Any] | None:
        """Return the fields of `topology/<id>/component/<name>`; None if there is none."""
        node = next((each for each in self.flow.nodes if each.name == name), None)
        if node is None:
            return None
        spout = node.kind == "spout"
        stats = self._spout_stats if spout else self._bolt_stats
        fields = {
            "id": node.name,
            "encodedId": quote(node.name, safe=""),
            "name": self.flow.name,
            "user": "",
            "componentType": "spout" if spout else "bolt",
            "executors": node.parallelism,
            "tasks": node.parallelism,
            "topologyId": self.id,
            "encodedTopologyId": quote(self.id, safe=""),
            "topologyStatus": self._status,
            "window": _window_text(window),
            "windowHint": _hint(window),
            "schedulerDisplayResource": False,
            **dict.fromkeys(("requestedMemOnHeap", "requestedMemOffHeap", "requestedCpu"), 0.0),
            "debug": False,
            "samplingPct": 0.0,
            "eventLogLink": "",
            "profilingAndDebuggingCapable": False,
            "profileActionEnabled": False,
            "profilerActive": [],
            "componentErrors": [],
            "spoutSummary" if spout else "boltStats": [
                {**_window_fields(each), **stats(node, each)} for each in (*WINDOWS, None)
            ],
            "outputStats": [self._output(node, stream, window) for stream in self._outputs(node)],
            "executorStats": [self._executor(node, stats(node, window))],
        }
        if not spout:
            fields["inputStats"] = self._inputs(node, window)
        return fields

    def worker(self) -> dict[str, Any]:
        """Return the process of the driver, as Storm describes a worker."""
        return {
            "supervisorId": self._host,
            "host": self._host,
            "port": 0,
            "topologyId": self.id,
            "topologyName": self.flow.name,
            "executorsTotal": self.tasks,
            "componentNumTasks": {each.name: each.parallelism for each in self.flow.nodes},
            **self._uptime(),
            "workerLogLink": "",
            **dict.fromkeys(("assignedMemOnHeap", "assignedMemOffHeap", "assignedCpu"), 0.0),
        }

    @property
    def _status(self) -> str:
        return "ACTIVE" if self.flow.active else "INACTIVE"

    @property
    def _host(self) -> str:
        """This machine; of a flow elsewhere, the one it reports or the host of its address."""
        if self.flow.pid is not None:
            return self.flow.host or self.host
        return urlsplit(self.flow.program).hostname or ""

    @property
    def _uptime_seconds(self) -> int:
        started = self.flow.started_ms
        return 0 if started is None else max(0, self.now_ms - started) // 1000

    def _uptime(self) -> dict[str, Any]:
        seconds = self._uptime_seconds
        return {"uptime": uptime_text(seconds), "uptimeSeconds": seconds}

    def _counts(self, node: FlowNode, window: int | None) -> Counts:
        started = self.flow.started_ms
        if window is not None and started is not None and self._uptime_seconds <= window:
            # The window reaches back beyond the start, which the console may not have seen.
            window = None
        return self.counts(node.name, window)

    def _figure(self, node: FlowNode, name: str) -> float:
        for each in (self.flow.figures or {}).get("components", ()):
            if each["component"] == node.name:
                return float(each[name])
        return 0.0

    @property
    def _complete_latency(self) -> str:
        return f"{float((self.flow.figures or {}).get('batch_ms') or 0):.3f}"

    def _topology_stats(self, window: int | None) -> dict[str, Any]:
        spouts = [
            self._spout_stats(each, window) for each in self.flow.nodes if each.kind == "spout"
        ]
        bolts = [self._bolt_stats(each, window) for each in self.flow.nodes if each.kind != "spout"]
        return {
            **_window_fields(window),
            "emitted": sum(each["emitted"] for each in (*spouts, *bolts)),
            "transferred": sum(each["transferred"] for each in (*spouts, *bolts)),
            "completeLatency": self._complete_latency,
            "acked": sum(each["acked"] for each in spouts),
            "failed": sum(each["failed"] for each in (*spouts, *bolts)),
        }

    def _spout_stats(self, node: FlowNode, window: int | None) -> dict[str, Any]:
        counts = self._counts(node, window)
        return {
            "emitted": counts.emitted,
            "transferred": self._transferred(node, counts),
            "completeLatency": self._complete_latency,
            "acked": counts.emitted,
            "failed": counts.failed,
        }

    def _bolt_stats(self, node: FlowNode, window: int | None) -> dict[str, Any]:
        counts = self._counts(node, window)
        latency = f"{self._figure(node, 'latency_ms'):.3f}"
        return {
            "emitted": counts.emitted,
            "transferred": self._transferred(node, counts),
            "executed": counts.executed,
            "executeLatency": latency,
            "processLatency": latency,
            "acked": max(0, counts.executed - counts.failed),
            "failed": counts.failed,
            "capacity": f"{self._figure(node, 'capacity'):.3f}",
        }

    def _transferred(self, node: FlowNode, counts: Counts) -> int:
        return counts.emitted if self._outputs(node) else 0

    def _spout(self, node: FlowNode, window: int | None) -> dict[str, Any]:
        return {
            "spoutId": node.name,
            "encodedSpoutId": quote(node.name, safe=""),
            **self._row(node),
            **self._spout_stats(node, window),
        }

    def _bolt(self, node: FlowNode, window: int | None) -> dict[str, Any]:
        return {
            "boltId": node.name,
            "encodedBoltId": quote(node.name, safe=""),
            **self._row(node),
            **self._bolt_stats(node, window),
        }

    def _row(self, node: FlowNode) -> dict[str, Any]:
        return {
            "executors": node.parallelism,
            "tasks": node.parallelism,
            **dict.fromkeys(("requestedMemOnHeap", "requestedMemOffHeap", "requestedCpu"), 0.0),
            **_NO_ERROR,
        }

    def _outputs(self, node: FlowNode) -> list[str]:
        """Return the streams of a component that others read."""
        read = (each.stream or _STREAM for each in self.flow.inputs if each.source == node.name)
        return list(dict.fromkeys(read))

    def _output(self, node: FlowNode, stream: str, window: int | None) -> dict[str, Any]:
        # Flows count by component: what one of several streams has is not known.
        alone = len(self._outputs(node)) == 1
        shown = ["emitted", "transferred"]
        if node.kind == "spout":
            stats = self._spout_stats(node, window)
            shown += ["completeLatency", "acked", "failed"]
        else:
            stats = self._bolt_stats(node, window)
        return {"stream": stream, **{name: stats[name] if alone else None for name in shown}}

    def _metrics(self, node: FlowNode, window: int | None) -> dict[str, Any]:
        """Return the counts of a component's streams; of several, they are not known."""
        spout = node.kind == "spout"
        streams = [self._output(node, each, window) for each in self._outputs(node)]
        outputs = [({"stream_id": each["stream"]}, each) for each in streams]
        inputs = [
            ({"component_id": each["component"], "stream_id": each["stream"]}, each)
            for each in self._inputs(node, window)
        ]

        def values(name: str, rows: list[tuple[dict[str, str], dict[str, Any]]]) -> Any:
            return [{**ids, "value": row[name]} for ids, row in rows if row.get(name) is not None]

        fields = {"id": node.name}
        fields |= {name: values(name, outputs) for name in ("emitted", "transferred")}
        fields |= {name: values(name, outputs if spout else inputs) for name in ("acked", "failed")}
        if spout:
            return {**fields, "complete_ms_avg": values("completeLatency", outputs)}
        return {
            **fields,
            "process_ms_avg": values("processLatency", inputs),
            "executed": values("executed", inputs),
            "executed_ms_avg": values("executeLatency", inputs),
        }

    def _inputs(self, node: FlowNode, window: int | None) -> list[dict[str, Any]]:
        inputs = [each for each in self.flow.inputs if each.target == node.name]
        stats = self._bolt_stats(node, window)
        shown = ("executed", "acked", "failed", "executeLatency", "processLatency")
        return [
            {
                "component": each.source,
                "encodedComponentId": quote(each.source, safe=""),
                "stream": each.stream or _STREAM,
                # As above: with several inputs it is not known how much came from which.
                **{name: stats[name] if len(inputs) == 1 else None for name in shown},
            }
            for each in inputs
        ]

    def _executor(self, node: FlowNode, stats: dict[str, Any]) -> dict[str, Any]:
        """Return all tasks of a component as one executor: flows do not count by task."""
        return {
            "id": f"[1-{node.parallelism}]",
            "host": self._host,
            "port": 0,
            "workerLogLink": "",
            **self._uptime(),
            **stats,
        }


def _window_text(window: int | None) -> str:
    return ALL_TIME if window is None else str(window)


def _hint(window: int | None) -> str:
    return "All time" if window is None else uptime_text(window)


def _window_fields(window: int | None) -> dict[str, str]:
    return {"window": _window_text(window), "windowPretty": _hint(window)}
