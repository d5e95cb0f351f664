"""The figures of a running plan: per component, and of the whole.

The figures of components come from reports that every task sends (`runtime.report`), those of
batches, state and lag from Spark. `metrics_server` serves them; `read_figures` reads them.
"""

import json
import time
import urllib.request
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from threading import Lock
from typing import Any

# Capacity is over the last minute; at most so many reports of it are kept.
_WINDOW_SECONDS = 60.0
_MAX_SAMPLES = 20_000
_MAX_COMPONENTS = 1_000
_MAX_BYTES = 1 << 20
_TIMEOUT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ComponentFigures:
    """One component, over all of its tasks.

    Attributes:
        executed: tuples that it was called with.
        emitted: tuples that it emitted.
        failed: tuples that it raised for.
        latency_ms: the average time per tuple since the start.
        capacity: the share of the last minute that its busiest task was busy; near 1 it is the
            bottleneck.
    """

    component: str
    executed: int
    emitted: int
    failed: int
    latency_ms: float
    capacity: float


@dataclass(frozen=True, slots=True)
class FlowFigures:
    """A plan as a whole.

    Attributes:
        batch: the number of the last batch; None before the first one.
        batch_ms: how long it took.
        records: how many records it read.
        lag: records that are not read yet; None if the source does not report it.
    """

    plan: str
    batch: int | None = None
    batch_ms: int = 0
    records: int = 0
    records_per_second: float = 0.0
    state_rows: int = 0
    state_bytes: int = 0
    lag: int | None = None
    components: tuple[ComponentFigures, ...] = ()

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str | bytes) -> "FlowFigures":
        """Return the figures in an answer of `/figures`, which has the graph and tables too."""
        answer = json.loads(text)
        figures = {each.name: answer[each.name] for each in fields(cls)}
        components = tuple(ComponentFigures(**each) for each in figures.pop("components"))
        return cls(**figures, components=components)


def read_figures(address: str) -> FlowFigures:
    """Return the figures of a run, from the address (host:port) of its `MetricsServer`.

    Raises:
        OSError: no server answers there.
    """
    url = f"http://{address}/figures"
    with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:
        return FlowFigures.from_json(answer.read(_MAX_BYTES))


@dataclass(slots=True)
class _Counts:
    executed: int = 0
    emitted: int = 0
    failed: int = 0
    busy_ns: int = 0


@dataclass(slots=True)
class FlowMetrics:
    """Adds reports up.

    Threads: every method may be called from any thread.

    Args:
        clock: seconds that only grow.
    """

    plan: str
    clock: Callable[[], float] = time.monotonic
    _counts: dict[str, _Counts] = field(default_factory=dict)
    _busy: deque[tuple[float, str, int, int]] = field(
        default_factory=lambda: deque(maxlen=_MAX_SAMPLES)
    )
    _started: float = 0.0
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._started = self.clock()

    def add(self, task: int, component: str, counted: tuple[int, int, int, int]) -> None:
        """Add what a task has counted for a component: executed, emitted, failed, busy ns."""
        with self._lock:
            counts = self._counts.get(component)
            if counts is None:
                if len(self._counts) >= _MAX_COMPONENTS:
                    return
                counts = self._counts[component] = _Counts()
            executed, emitted, failed, busy_ns = counted
            counts.executed += executed
            counts.emitted += emitted
            counts.failed += failed
            counts.busy_ns += busy_ns
            self._busy.append((self.clock(), component, task, busy_ns))

    def figures(self, progress: Mapping[str, Any] | None = None) -> FlowFigures:
        """Return the figures of now.

        Args:
            progress: Spark's report of the last batch, a query's `lastProgress`.
        """
        with self._lock:
            capacity = self._capacities()
            components = tuple(
                ComponentFigures(
                    name,
                    each.executed,
                    each.emitted,
                    each.failed,
                    each.busy_ns / 1e6 / max(1, each.executed),
                    capacity.get(name, 0.0),
                )
                for name, each in self._counts.items()
            )
        return _of_progress(self.plan, progress or {}, components)

    def _capacities(self) -> dict[str, float]:
        now = self.clock()
        since = max(now - _WINDOW_SECONDS, self._started)
        while self._busy and self._busy[0][0] < since:
            self._busy.popleft()
        by_task: dict[tuple[str, int], int] = {}
        for _, component, task, busy_ns in self._busy:
            by_task[component, task] = by_task.get((component, task), 0) + busy_ns
        span_ns = max(1e9, (now - since) * 1e9)
        busiest: dict[str, float] = {}
        for (component, _), busy_ns in by_task.items():
            busiest[component] = max(busiest.get(component, 0.0), min(1.0, busy_ns / span_ns))
        return busiest


def _of_progress(
    plan: str, progress: Mapping[str, Any], components: tuple[ComponentFigures, ...]
) -> FlowFigures:
    sources = progress.get("sources") or []
    operators = progress.get("stateOperators") or []
    lags = [
        lag for each in sources if (lag := _behind(each, "endOffset", "latestOffset")) is not None
    ]
    batch_ms = int(progress.get("batchDuration") or 0)
    records = records_read(progress)
    return FlowFigures(
        plan=plan,
        batch=progress.get("batchId"),
        batch_ms=batch_ms,
        records=records,
        records_per_second=records * 1_000 / max(1, batch_ms),
        state_rows=sum(int(each.get("numRowsTotal") or 0) for each in operators),
        state_bytes=sum(int(each.get("memoryUsedBytes") or 0) for each in operators),
        lag=sum(lags) if lags else None,
        components=components,
    )


def records_read(progress: Mapping[str, Any]) -> int:
    """Return the records of a batch, from its offsets.

    Spark's own `numInputRows` counts the rows of a source. A plan's first stage runs in the source,
    so its rows are chunks.
    """
    total = 0
    for each in progress.get("sources") or []:
        read = _behind(each, "startOffset", "endOffset")
        total += int(each.get("numInputRows") or 0) if read is None else read
    return total


def _behind(source: Mapping[str, Any], start: str, end: str) -> int | None:
    """Return how many offsets lie between two of a source's; None if it reports none."""
    first, last = _offsets(source.get(start)), _offsets(source.get(end))
    if last is None:
        return None
    first = first or {}
    return sum(
        max(0, offset - first.get(topic, {}).get(partition, 0))
        for topic, partitions in last.items()
        for partition, offset in partitions.items()
    )


def _offsets(reported: Any) -> dict[str, dict[str, int]] | None:
    """Return offsets by topic and partition; None for those of another kind of source."""
    try:
        topics = json.loads(reported) if isinstance(reported, str) else reported
    except ValueError:
        return None
    if isinstance(topics, dict) and isinstance(topics.get("emitted"), int):
        return {"": {"": topics["emitted"]}}  # of a Python spout
    if not isinstance(topics, dict) or not all(isinstance(each, dict) for each in topics.values()):
        return None
    return topics


_OF_COMPONENT = {
    "executed": ("counter", "headrace_flow_executed_total", "Tuples given to the component."),
    "emitted": ("counter", "headrace_flow_emitted_total", "Tuples that the component gave."),
    "failed": ("counter", "headrace_flow_failed_total", "Tuples it could not take."),
    "latency_ms": ("gauge", "headrace_flow_latency_ms", "What a tuple took, on average."),
    "capacity": ("gauge", "headrace_flow_capacity", "Part of the last minute it was busy."),
}
_OF_FLOW = {
    "batch": ("gauge", "headrace_flow_batch", "The number of the last batch."),
    "batch_ms": ("gauge", "headrace_flow_batch_ms", "What the last batch took."),
    "records": ("gauge", "headrace_flow_batch_records", "Records of the last batch."),
    "state_rows": ("gauge", "headrace_flow_state_rows", "Rows in the state store."),
    "state_bytes": ("gauge", "headrace_flow_state_bytes", "Memory of the state store."),
    "lag": ("gauge", "headrace_flow_lag", "Records that are there and not read yet."),
}


def prometheus_text(figures: FlowFigures) -> str:
    """Return the figures in Prometheus's text format."""
    lines: list[str] = []
    flow = _label(figures.plan)
    for name, (kind, metric, about) in _OF_FLOW.items():
        value = getattr(figures, name)
        if value is not None:
            lines += [f"# HELP {metric} {about}", f"# TYPE {metric} {kind}"]
            lines.append(f'{metric}{{flow="{flow}"}} {value}')
    for name, (kind, metric, about) in _OF_COMPONENT.items():
        if figures.components:
            lines += [f"# HELP {metric} {about}", f"# TYPE {metric} {kind}"]
        for each in figures.components:
            labels = f'flow="{flow}",component="{_label(each.component)}"'
            lines.append(f"{metric}{{{labels}}} {getattr(each, name)}")
    return "\n".join([*lines, ""])


def _label(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
