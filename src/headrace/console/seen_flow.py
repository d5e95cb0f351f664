"""A flow, as its registration and its figures tell.

Figures come from another process: everything is checked and bounded before it goes to the page.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.console.neighbour import fetch_json
from headrace.flow.monitoring.registry import Run

_MOST_NODES: Final = 100
_MOST_ARROWS: Final = 300
_MOST_TABLES: Final = 8
_MOST_ROWS: Final = 50
_MOST_COLUMNS: Final = 12
_LONGEST: Final = 300

_NUMBERS: Final = ("batch_ms", "records", "records_per_second", "state_rows", "state_bytes")
_COMPONENT_NUMBERS: Final = ("executed", "emitted", "failed", "latency_ms", "capacity")


@dataclass(frozen=True, slots=True)
class FlowNode:
    name: str
    kind: str
    what: str


@dataclass(frozen=True, slots=True)
class SeenFlow:
    """One flow.

    Attributes:
        pid: of a flow on this machine, which can be stopped and restarted; None: of another.
        figures: None: it does not answer; `problem` says why.
    """

    name: str
    program: str
    pid: int | None = None
    master: str = ""
    brokers: str = ""
    started_ms: int | None = None
    checkpoint: str | None = None
    nodes: tuple[FlowNode, ...] = ()
    arrows: tuple[tuple[str, str], ...] = ()
    figures: Mapping[str, Any] | None = None
    tables: tuple[Mapping[str, Any], ...] = field(default=())
    problem: str | None = None

    @property
    def key(self) -> tuple[str, int | None]:
        return self.name, self.pid

    @property
    def batch(self) -> int | None:
        found = None if self.figures is None else self.figures.get("batch")
        return found if isinstance(found, int) else None


def look_at_run(run: Run) -> SeenFlow:
    """A flow on this machine."""
    seen = look_at_flow(run.name, f"http://{run.metrics}" if run.metrics else None, run.graph)
    return SeenFlow(
        name=run.name,
        program=run.program,
        pid=run.pid,
        master=run.master,
        brokers=run.brokers,
        started_ms=run.started_ms,
        checkpoint=run.checkpoint,
        nodes=seen.nodes,
        arrows=seen.arrows,
        figures=seen.figures,
        tables=seen.tables,
        problem=seen.problem,
    )


def look_at_flow(name: str, url: str | None, graph: Mapping[str, Any] | None = None) -> SeenFlow:
    """A flow by the address of its figures, which may hold its graph."""
    if url is None:
        nodes, arrows = _graph(graph)
        return SeenFlow(name, "", nodes=nodes, arrows=arrows, problem="it serves no figures")
    base = url.rstrip("/").removesuffix("/figures").removesuffix("/metrics")
    told: Mapping[str, Any] = {}
    problem = None
    try:
        told = fetch_json(f"{base}/figures")
    except OSError as error:
        problem = str(error)
    nodes, arrows = _graph(graph or told.get("graph"))
    return SeenFlow(
        name=name,
        program=url,
        nodes=nodes,
        arrows=arrows,
        figures=None if problem else _figures(told),
        tables=_tables(told.get("tables")),
        problem=problem,
    )


def _graph(told: Any) -> tuple[tuple[FlowNode, ...], tuple[tuple[str, str], ...]]:
    if not isinstance(told, Mapping):
        return (), ()
    nodes = {}
    for each in _list(told.get("nodes"), _MOST_NODES):
        if isinstance(each, Mapping) and each.get("name"):
            node = FlowNode(*(_text(each.get(key)) for key in ("name", "kind", "what")))
            nodes[node.name] = node
    arrows = []
    for each in _list(told.get("arrows"), _MOST_ARROWS):
        if isinstance(each, Mapping):
            source, target = _text(each.get("source")), _text(each.get("target"))
            if source in nodes and target in nodes:
                arrows.append((source, target))
    return tuple(nodes.values()), tuple(dict.fromkeys(arrows))


def _figures(told: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {key: _number(told.get(key)) or 0 for key in _NUMBERS}
    found["batch"] = _number(told.get("batch"))
    found["lag"] = _number(told.get("lag"))
    found["components"] = [
        {
            "component": _text(each.get("component")),
            **{key: _number(each.get(key)) or 0 for key in _COMPONENT_NUMBERS},
        }
        for each in _list(told.get("components"), _MOST_NODES)
        if isinstance(each, Mapping)
    ]
    return found


def _tables(told: Any) -> tuple[dict[str, Any], ...]:
    """What a flow has to show: titles, columns, and rows of texts and numbers."""
    found = []
    for each in _list(told, _MOST_TABLES):
        if isinstance(each, Mapping):
            columns = [_text(one) for one in _list(each.get("columns"), _MOST_COLUMNS)]
            rows = [
                [_cell(cell) for cell in _list(row, len(columns))]
                for row in _list(each.get("rows"), _MOST_ROWS)
            ]
            found.append({"title": _text(each.get("title")), "columns": columns, "rows": rows})
    return tuple(found)


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
    # JSON of Python's knows numbers that a page's does not: infinite ones, and NaN.
    return value if abs(value) < 2**63 else None
