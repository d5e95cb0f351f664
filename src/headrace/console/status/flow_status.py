"""The status of a flow, from its registration and from the figures it serves.

Figures come from another process: everything is checked and bounded before it goes to the page.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeAlias

from headrace.console.status.fetch_json import fetch_json
from headrace.flow.monitoring.run_folder import Run
from headrace.flow.remote.remote_run import RemoteRun

_MOST_NODES: Final = 100
_MOST_ARROWS: Final = 300
_MOST_TABLES: Final = 8
_MOST_ROWS: Final = 50
_MOST_COLUMNS: Final = 12
_LONGEST: Final = 300

_NUMBERS: Final = ("batch_ms", "records", "records_per_second", "state_rows", "state_bytes")
_COMPONENT_NUMBERS: Final = ("executed", "emitted", "failed", "latency_ms", "capacity")


FlowKey: TypeAlias = tuple[str, str | int | None]
"""A flow's name, and its application, pid or nothing."""


@dataclass(frozen=True, slots=True)
class FlowNode:
    name: str
    kind: str
    what: str
    parallelism: int = 1


@dataclass(frozen=True, slots=True)
class FlowInput:
    """A stream that a component reads."""

    source: str
    target: str
    stream: str


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """One flow.

    Attributes:
        pid: of its driver, which can be stopped and restarted; None for a flow of which only the
            address of its figures is known.
        application, host: Spark's id and the machine of a driver that runs elsewhere and reports
            to the brokers.
        active: whether it reads anything; a flow that is known by its address does not say.
        figures: None if the flow does not answer.
        problem: why it does not, is lost, or takes no requests.
    """

    name: str
    program: str
    pid: int | None = None
    application: str | None = None
    host: str | None = None
    master: str = ""
    brokers: str = ""
    started_ms: int | None = None
    checkpoint: str | None = None
    active: bool = True
    nodes: tuple[FlowNode, ...] = ()
    inputs: tuple[FlowInput, ...] = ()
    figures: Mapping[str, Any] | None = None
    tables: tuple[Mapping[str, Any], ...] = field(default=())
    problem: str | None = None

    @property
    def is_local(self) -> bool:
        """Whether its driver is a process of this machine."""
        return self.pid is not None and self.host is None

    @property
    def key(self) -> FlowKey:
        return self.name, self.application or self.pid

    @property
    def arrows(self) -> tuple[tuple[str, str], ...]:
        """Which component reads from which."""
        return tuple(dict.fromkeys((each.source, each.target) for each in self.inputs))

    @property
    def batch(self) -> int | None:
        number = None if self.figures is None else self.figures.get("batch")
        return number if isinstance(number, int) else None


def fetch_run_status(run: Run) -> FlowStatus:
    """Return the status of a flow on this machine."""
    served = fetch_flow_status(
        run.name, f"http://{run.metrics}" if run.metrics else None, run.graph
    )
    return FlowStatus(
        name=run.name,
        program=run.program,
        pid=run.pid,
        master=run.master,
        brokers=run.brokers,
        started_ms=run.started_ms,
        checkpoint=run.checkpoint,
        active=run.active,
        nodes=served.nodes,
        inputs=served.inputs,
        figures=served.figures,
        tables=served.tables,
        problem=served.problem,
    )


def remote_run_status(run: RemoteRun, now_ms: int) -> FlowStatus:
    """Return the status of a flow elsewhere, from its last report to the brokers."""
    nodes, inputs = _graph(run.graph)
    problem = run.deaf
    if run.is_lost(now_ms):
        seconds = (now_ms - run.seen_ms) // 1000
        problem = f"it has not reported for {seconds} s: its driver was killed, or is cut off"
    return FlowStatus(
        name=_text(run.name),
        program=_text(run.program),
        pid=run.pid,
        application=_text(run.application),
        host=_text(run.host),
        master=_text(run.master),
        brokers=_text(run.brokers),
        started_ms=run.started_ms,
        checkpoint=None if run.checkpoint is None else _text(run.checkpoint),
        active=run.active,
        nodes=nodes,
        inputs=inputs,
        figures=None if run.figures is None else _figures(asdict(run.figures)),
        problem=problem,
    )


def fetch_flow_status(
    name: str, url: str | None, graph: Mapping[str, Any] | None = None
) -> FlowStatus:
    """Return the status of a flow by the URL of its figures, which may hold its graph."""
    if url is None:
        nodes, inputs = _graph(graph)
        return FlowStatus(name, "", nodes=nodes, inputs=inputs, problem="it serves no figures")
    base = url.rstrip("/").removesuffix("/figures").removesuffix("/metrics")
    served: Mapping[str, Any] = {}
    problem = None
    try:
        served = fetch_json(f"{base}/figures")
    except OSError as error:
        problem = str(error)
    nodes, inputs = _graph(graph or served.get("graph"))
    return FlowStatus(
        name=name,
        program=url,
        nodes=nodes,
        inputs=inputs,
        figures=None if problem else _figures(served),
        tables=_tables(served.get("tables")),
        problem=problem,
    )


def _graph(served: Any) -> tuple[tuple[FlowNode, ...], tuple[FlowInput, ...]]:
    if not isinstance(served, Mapping):
        return (), ()
    nodes = {}
    for each in _list(served.get("nodes"), _MOST_NODES):
        if isinstance(each, Mapping) and each.get("name"):
            name, kind, what = (_text(each.get(key)) for key in ("name", "kind", "what"))
            nodes[name] = FlowNode(name, kind, what, int(_number(each.get("parallelism")) or 1))
    inputs = []
    for each in _list(served.get("arrows"), _MOST_ARROWS):
        if isinstance(each, Mapping):
            source, target = _text(each.get("source")), _text(each.get("target"))
            if source in nodes and target in nodes:
                inputs.append(FlowInput(source, target, _text(each.get("stream"))))
    return tuple(nodes.values()), tuple(dict.fromkeys(inputs))


def _figures(served: Mapping[str, Any]) -> dict[str, Any]:
    figures: dict[str, Any] = {key: _number(served.get(key)) or 0 for key in _NUMBERS}
    figures["batch"] = _number(served.get("batch"))
    figures["lag"] = _number(served.get("lag"))
    figures["components"] = [
        {
            "component": _text(each.get("component")),
            **{key: _number(each.get(key)) or 0 for key in _COMPONENT_NUMBERS},
        }
        for each in _list(served.get("components"), _MOST_NODES)
        if isinstance(each, Mapping)
    ]
    return figures


def _tables(served: Any) -> tuple[dict[str, Any], ...]:
    """Return the tables that a flow shows: titles, columns, and rows of texts and numbers."""
    tables = []
    for each in _list(served, _MOST_TABLES):
        if isinstance(each, Mapping):
            columns = [_text(one) for one in _list(each.get("columns"), _MOST_COLUMNS)]
            rows = [
                [_cell(cell) for cell in _list(row, len(columns))]
                for row in _list(each.get("rows"), _MOST_ROWS)
            ]
            tables.append({"title": _text(each.get("title")), "columns": columns, "rows": rows})
    return tuple(tables)


def _cell(value: Any) -> str | float:
    number = _number(value)
    return _text(value) if number is None else number


def _list(value: Any, most: int) -> list[Any]:
    return list(value[:most]) if isinstance(value, list | tuple) else []


def _text(value: Any) -> str:
    return "" if value is None else str(value)[:_LONGEST]


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Python's JSON has NaN and infinite numbers; a browser's JSON.parse refuses them.
    return value if abs(value) < 2**63 else None
