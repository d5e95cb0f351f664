"""A graph as an SVG picture: boxes in columns from the spouts to the sinks, in light or dark mode.

Every name that a user chose goes through `escape`: browsers run scripts in an SVG.
"""

from xml.sax.saxutils import escape

from headrace.flow.plan.graph import Graph, GraphNode

_BOX_WIDTH, _BOX_HEIGHT = 190, 62
_GAP_ACROSS, _GAP_DOWN = 130, 34
_MARGIN = 24
_HEAD = 40
_NAME_LENGTH, _WHAT_LENGTH, _LABEL_LENGTH = 22, 28, 24

_STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #1f2933; }
  .title { font-size: 17px; font-weight: 600; }
  .name { font-weight: 600; }
  .what, .label { font-size: 11px; fill: #52606d; }
  .label { text-anchor: middle; paint-order: stroke; stroke: #fff; stroke-width: 4px; }
  rect { fill: #fff; stroke: #9aa5b1; stroke-width: 1.5; rx: 8; }
  .spout rect { stroke: #2f80ed; }
  .sink rect { stroke: #27ae60; }
  .stateful rect { stroke-width: 3; }
  path { fill: none; stroke: #9aa5b1; stroke-width: 1.5; }
  .head { fill: #9aa5b1; stroke: none; }
  @media (prefers-color-scheme: dark) {
    svg { background: #1b1f24; }
    text { fill: #e4e7eb; }
    .what, .label { fill: #9aa5b1; }
    .label { stroke: #1b1f24; }
    rect { fill: #252a31; }
  }
"""


def to_svg(graph: Graph) -> str:
    """Return the whole document. Hovering over a box shows the fields of its streams."""
    places = _places(graph)
    width = max((x for x, _ in places.values()), default=0) + _BOX_WIDTH + _MARGIN
    height = max((y for _, y in places.values()), default=0) + _BOX_HEIGHT + _MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {width} {height}" role="img" aria-label="{_quoted(graph.name)}">',
        f"<style>{_STYLE}</style>",
        '<defs><marker id="head" markerWidth="9" markerHeight="9" refX="8" refY="4.5"'
        ' orient="auto"><path class="head" d="M0,0 L9,4.5 L0,9 z"/></marker></defs>',
        f'<text class="title" x="{_MARGIN}" y="{_MARGIN + 4}">{escape(graph.name)}</text>',
    ]
    parts += _arrows(graph, places)
    parts += [_box(each, *places[each.name]) for each in graph.nodes]
    return "\n".join([*parts, "</svg>", ""])


def _places(graph: Graph) -> dict[str, tuple[int, int]]:
    depths = graph.depths()
    filled: dict[int, int] = {}
    places = {}
    for node in graph.nodes:
        column = depths[node.name]
        row = filled.get(column, 0)
        filled[column] = row + 1
        places[node.name] = (
            _MARGIN + column * (_BOX_WIDTH + _GAP_ACROSS),
            _MARGIN + _HEAD + row * (_BOX_HEIGHT + _GAP_DOWN),
        )
    return places


def _arrows(graph: Graph, places: dict[str, tuple[int, int]]) -> list[str]:
    parts = []
    for each in graph.arrows:
        x, y = places[each.source]
        to_x, to_y = places[each.target]
        x, y, to_y = x + _BOX_WIDTH, y + _BOX_HEIGHT // 2, to_y + _BOX_HEIGHT // 2
        bend = max(30, (to_x - x) // 2)
        parts.append(
            f'<path d="M{x},{y} C{x + bend},{y} {to_x - bend},{to_y} {to_x},{to_y}"'
            ' marker-end="url(#head)"/>'
            f'<text class="label" x="{(x + to_x) // 2}" y="{(y + to_y) // 2 - 6}">'
            f"{escape(_short(each.label, _LABEL_LENGTH))}</text>"
        )
    return parts


def _box(node: GraphNode, x: int, y: int) -> str:
    kinds = f"{node.kind} stateful" if node.stateful else node.kind
    tasks = f" ×{node.parallelism}" if node.parallelism > 1 else ""
    fields = "; ".join(f"{stream}: {ddl}" for stream, ddl in node.streams.items())
    return (
        f'<g class="{kinds}"><title>{escape(fields or node.kind)}</title>'
        f'<rect x="{x}" y="{y}" width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}"/>'
        f'<text class="name" x="{x + 12}" y="{y + 24}">'
        f"{escape(_short(node.name, _NAME_LENGTH))}{tasks}</text>"
        f'<text class="what" x="{x + 12}" y="{y + 44}">'
        f"{escape(_short(f'{node.kind} {node.what}', _WHAT_LENGTH))}</text></g>"
    )


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _quoted(text: str) -> str:
    return escape(text, {'"': "&quot;"})
