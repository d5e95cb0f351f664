"""A graph in the terminal: a tree from each spout down to the sinks."""

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from headrace.flow.plan.graph import Graph, GraphNode

_COLORS = {"spout": "blue", "bolt": "yellow", "sink": "green"}


def draw(graph: Graph, console: Console) -> None:
    """Print the graph. A component with several inputs is described once; its other inputs only
    name it."""
    described: set[str] = set()
    console.print(f"{graph.name} ({graph.guarantee})", highlight=False, markup=False)
    for node in graph.nodes:
        if node.kind == "spout":
            tree = Tree(_label(node))
            _grow(graph, node.name, tree, described)
            console.print(tree)


def _grow(graph: Graph, name: str, tree: Tree, described: set[str]) -> None:
    for arrow in graph.arrows:
        if arrow.source != name:
            continue
        node = graph.node(arrow.target)
        label = Text(f"{arrow.label} → ", "dim")
        if node.name in described:
            tree.add(label + Text(f"{node.name} (above)", "dim"))
            continue
        described.add(node.name)
        _grow(graph, node.name, tree.add(label + _label(node)), described)


def _label(node: GraphNode) -> Text:
    label = Text(node.name, f"bold {_COLORS.get(node.kind, '')}")
    tasks = f" ×{node.parallelism}" if node.parallelism > 1 else ""
    state = ", state" if node.stateful else ""
    label.append(f"{tasks}  {node.kind} {node.what}{state}, stage {node.stage}", "not bold default")
    for stream, fields in node.streams.items():
        name = "" if stream == "default" else f"{stream}: "
        label.append(f"\n{name}{fields}", "dim")
    return label
