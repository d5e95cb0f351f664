"""Lays out boxes and arrows in layers from left to right, so that few arrows cross.

Sugiyama's method: the layer of a node is the longest path to it; a long arrow gets a point in every
layer it passes; then each layer is ordered by the mean position of adjacent nodes, in sweeps to and
fro, and the order with the fewest crossings wins. The result depends on the input alone, so that a
picture that is drawn again does not jump.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

_SWEEPS: Final = 8
_MOST_STEPS: Final = 1_000

Arrow = tuple[str, str]


@dataclass(frozen=True, slots=True)
class LayeredLayout:
    """The position of every node and the path of every arrow.

    Attributes:
        layers: ids from top to bottom; an id that is no node is a point of a long arrow.
        paths: for each arrow the ids it passes, from its source to its target.
    """

    layers: tuple[tuple[str, ...], ...]
    paths: dict[Arrow, tuple[str, ...]]

    @classmethod
    def of(cls, nodes: Sequence[str], arrows: Iterable[Arrow]) -> "LayeredLayout":
        """Lay out a graph.

        Args:
            nodes: ids, in the order they have where nothing else decides.
            arrows: from id to id. An arrow that closes a circle is drawn backwards.

        A graph that no one could read, and that would take long, has no layers.
        """
        distinct = list(dict.fromkeys(arrows))
        depth = _depths(nodes, distinct)
        if sum(abs(depth[target] - depth[source]) for source, target in distinct) > _MOST_STEPS:
            return cls((), {each: each for each in distinct})
        layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
        for node in nodes:
            layers[depth[node]].append(node)
        paths: dict[Arrow, tuple[str, ...]] = {}
        steps: list[Arrow] = []
        for source, target in distinct:
            path = [source]
            for layer in range(depth[source] + 1, depth[target]):
                point = f"{source} > {target} @ {layer}"
                layers[layer].append(point)
                path.append(point)
            path.append(target)
            paths[source, target] = tuple(path)
            if depth[source] < depth[target]:
                steps += pairwise(path)
        ordered = _order(layers, steps)
        return cls(tuple(tuple(layer) for layer in ordered), paths)


def _depths(nodes: Sequence[str], arrows: Sequence[Arrow]) -> dict[str, int]:
    """Return the longest path to each node, over arrows that close no circle."""
    after: dict[str, list[str]] = {node: [] for node in nodes}
    for source, target in arrows:
        after[source].append(target)
    finished: list[str] = []
    state: dict[str, int] = {}
    back: set[Arrow] = set()
    for root in nodes:
        if root in state:
            continue
        state[root] = 1
        stack = [(root, iter(after[root]))]
        while stack:
            node, rest = stack[-1]
            for target in rest:
                if target not in state:
                    state[target] = 1
                    stack.append((target, iter(after[target])))
                    break
                if state[target] == 1:
                    back.add((node, target))
            else:
                state[node] = 2
                finished.append(node)
                stack.pop()
    depth = dict.fromkeys(nodes, 0)
    for node in reversed(finished):
        for target in after[node]:
            if (node, target) not in back:
                depth[target] = max(depth[target], depth[node] + 1)
    return depth


def _order(layers: list[list[str]], steps: Sequence[Arrow]) -> list[list[str]]:
    before: dict[str, list[str]] = {}
    after: dict[str, list[str]] = {}
    for source, target in steps:
        after.setdefault(source, []).append(target)
        before.setdefault(target, []).append(source)
    best, fewest = [list(each) for each in layers], _crossings(layers, after)
    now = [list(each) for each in layers]
    for sweep in range(_SWEEPS):
        if fewest == 0:
            break
        down = sweep % 2 == 0
        places = range(1, len(now)) if down else range(len(now) - 2, -1, -1)
        for index in places:
            fixed = now[index - 1 if down else index + 1]
            _sort(now[index], fixed, before if down else after)
        crossings = _crossings(now, after)
        if crossings < fewest:
            best, fewest = [list(each) for each in now], crossings
    return best


def _sort(layer: list[str], fixed: Sequence[str], adjacent: dict[str, list[str]]) -> None:
    place = {each: number for number, each in enumerate(fixed)}
    # A node without adjacent ones stays about where it is.
    scale = len(fixed) / max(len(layer), 1)
    mean = {}
    for number, each in enumerate(layer):
        places = [place[one] for one in adjacent.get(each, ())]
        mean[each] = sum(places) / len(places) if places else number * scale
    layer.sort(key=mean.__getitem__)


def _crossings(layers: Sequence[Sequence[str]], after: dict[str, list[str]]) -> int:
    total = 0
    for upper, lower in pairwise(layers):
        place = {each: number for number, each in enumerate(lower)}
        passed: list[int] = []
        for node in upper:
            targets = sorted(place[each] for each in after.get(node, ()))
            total += sum(len(passed) - bisect_right(passed, each) for each in targets)
            passed = sorted([*passed, *targets])
    return total
