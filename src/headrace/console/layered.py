"""Boxes and arrows in layers from left to right, in an order in which few arrows cross.

Sugiyama's steps: layers by the longest way, points where a long arrow passes a layer, then the
order in each layer by the mean place of the neighbours, swept to and fro; the best order seen wins.
The result depends on its input alone, so that a picture that is drawn again stays as it was.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

_SWEEPS: Final = 8

Arrow = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is.

    Attributes:
        layers: ids from top to bottom; those that are no node are points of long arrows.
        paths: for each arrow the ids it passes, from its source to its target.
    """

    layers: tuple[tuple[str, ...], ...]
    paths: dict[Arrow, tuple[str, ...]]


def layered(nodes: Sequence[str], arrows: Iterable[Arrow]) -> Layout:
    """Lay out.

    Args:
        nodes: ids, in the order they have where nothing else decides.
        arrows: from id to id. Those that close a circle are drawn backwards.
    """
    wanted = list(dict.fromkeys(arrows))
    depth = _depths(nodes, wanted)
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node in nodes:
        layers[depth[node]].append(node)
    paths: dict[Arrow, tuple[str, ...]] = {}
    steps: list[Arrow] = []
    for source, target in wanted:
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
    return Layout(tuple(tuple(layer) for layer in ordered), paths)


def _depths(nodes: Sequence[str], arrows: Sequence[Arrow]) -> dict[str, int]:
    """The longest way to each node, over arrows that close no circle."""
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


def _sort(layer: list[str], fixed: Sequence[str], neighbours: dict[str, list[str]]) -> None:
    place = {each: number for number, each in enumerate(fixed)}
    # One without neighbours stays about where it is.
    scale = len(fixed) / max(len(layer), 1)
    wanted = {}
    for number, each in enumerate(layer):
        near = [place[one] for one in neighbours.get(each, ())]
        wanted[each] = sum(near) / len(near) if near else number * scale
    layer.sort(key=wanted.__getitem__)


def _crossings(layers: Sequence[Sequence[str]], after: dict[str, list[str]]) -> int:
    total = 0
    for upper, lower in pairwise(layers):
        place = {each: number for number, each in enumerate(lower)}
        seen: list[int] = []
        for node in upper:
            targets = sorted(place[each] for each in after.get(node, ()))
            total += sum(len(seen) - bisect_right(seen, each) for each in targets)
            seen = sorted([*seen, *targets])
    return total
