"""Compares two texts line by line, after Myers: the fewest lines that were removed and added."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MOST_LINES: Final = 5_000
# The search takes this many steps squared, at most.
_MOST_CHANGES: Final = 600


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line: `same`, `removed` or `added`; its numbers from 1 on, None where it is not."""

    kind: str
    text: str
    before: int | None
    after: int | None


def line_diff(before: Sequence[str], after: Sequence[str]) -> list[DiffLine]:
    """Return the lines of both texts in order.

    Texts that differ in more than some hundred lines are not compared in their middle: all of it
    counts as removed and added.

    >>> [(each.kind, each.text) for each in line_diff(["a", "b"], ["a", "c"])]
    [('same', 'a'), ('removed', 'b'), ('added', 'c')]
    """
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    most = min(len(before), len(after)) - head
    while tail < most and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    pairs = [(each, each) for each in range(head)]
    pairs += [(head + x, head + y) for x, y in _matches(old, new)]
    pairs += [(len(before) - each, len(after) - each) for each in range(tail, 0, -1)]
    return _lines(before, after, pairs)


def _lines(
    before: Sequence[str], after: Sequence[str], pairs: Sequence[tuple[int, int]]
) -> list[DiffLine]:
    found: list[DiffLine] = []
    x = y = 0
    for match_x, match_y in [*pairs, (len(before), len(after))]:
        found += [DiffLine("removed", before[each], each + 1, None) for each in range(x, match_x)]
        found += [DiffLine("added", after[each], None, each + 1) for each in range(y, match_y)]
        if match_x < len(before):
            found.append(DiffLine("same", before[match_x], match_x + 1, match_y + 1))
        x, y = match_x + 1, match_y + 1
    return found


def _matches(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Return the longest sequence of pairs of equal lines; none past the bound of the search."""
    reach = {1: 0}
    trace: list[dict[int, int]] = []
    for changes in range(min(len(old) + len(new), _MOST_CHANGES) + 1):
        trace.append(dict(reach))
        for k in range(-changes, changes + 1, 2):
            x = _step(reach, k, changes)
            while x < len(old) and x - k < len(new) and old[x] == new[x - k]:
                x += 1
            reach[k] = x
            if x >= len(old) and x - k >= len(new):
                return _walk_back(trace, len(old), len(new))
    return []


def _step(reach: dict[int, int], k: int, changes: int) -> int:
    """Return where diagonal `k` is entered: by an added line from above, or a removed one."""
    if k == -changes or (k != changes and reach[k - 1] < reach[k + 1]):
        return reach[k + 1]
    return reach[k - 1] + 1


def _walk_back(trace: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    pairs: list[tuple[int, int]] = []
    for changes in range(len(trace) - 1, -1, -1):
        reach, k = trace[changes], x - y
        entered = _step(reach, k, changes)
        while x > entered and y > 0 and x > 0:
            x, y = x - 1, y - 1
            pairs.append((x, y))
        down = k == -changes or (k != changes and reach[k - 1] < reach[k + 1])
        if changes:
            x, y = (x, y - 1) if down else (x - 1, y)
    return pairs[::-1]
