"""Differences of allOf, anyOf and oneOf.

1. anyOf and oneOf may get further branches, allOf may lose some.
2. anyOf may replace both others. oneOf may replace one with a single branch, allOf one with a
   single branch if it has a single branch itself.
3. Each branch of the side with fewer branches needs a compatible partner of its own on the other
   side.
"""

from headrace.schema.json_schema.comparison import Comparison
from headrace.schema.json_schema.difference import Differences
from headrace.schema.json_schema.node import Combined, Node


def combined_differences(
    comparison: Comparison, original: Combined, update: Combined
) -> Differences:
    if not _may_replace(original, update):
        return comparison.because("COMBINED_TYPE_CHANGED")
    before = _distinct(comparison, original.branches)
    after = _distinct(comparison, update.branches)
    found: Differences = []
    if update.criterion == "allOf" and len(before) < len(after):
        found = comparison.because("PRODUCT_TYPE_EXTENDED")
    elif update.criterion != "allOf" and len(before) > len(after):
        found = comparison.because("SUM_TYPE_NARROWED")
    comparison.limit.must_allow(len(before) * len(after))
    partners = [
        [index for index, each in enumerate(after) if not comparison.compare(branch, each)]
        for branch in before
    ]
    if _matched(comparison, partners) < min(len(before), len(after)):
        found = [*found, *comparison.because("COMBINED_TYPE_SUBSCHEMAS_CHANGED")]
    return found


def _may_replace(original: Combined, update: Combined) -> bool:
    if original.criterion == update.criterion or update.criterion == "anyOf":
        return True
    single = len(original.branches) == 1
    return single and (update.criterion == "oneOf" or len(update.branches) == 1)


def _distinct(comparison: Comparison, branches: tuple[Node, ...]) -> list[Node]:
    """Return the branches without those that say the same as another."""
    found: dict[int, Node] = {}
    for branch in branches:
        shape = comparison.shapes.of(branch.source) if branch.source is not None else -id(branch)
        found.setdefault(shape, branch)
    return list(found.values())


def _matched(comparison: Comparison, partners: list[list[int]]) -> int:
    """Return how many pairs without a common branch there are at most (Kuhn's algorithm)."""
    owner: dict[int, int] = {}
    count = 0
    for branch in range(len(partners)):
        seen: set[int] = set()
        # A walk along alternating pairs: (branch, next partner to try).
        walk = [(branch, 0)]
        while walk:
            current, position = walk.pop()
            if position == len(partners[current]):
                continue
            comparison.limit.spend(1)
            walk.append((current, position + 1))
            partner = partners[current][position]
            if partner in seen:
                continue
            seen.add(partner)
            if partner in owner:
                walk.append((owner[partner], 0))
                continue
            for step, tried in reversed(walk):
                owner[partners[step][tried - 1]] = step
            count += 1
            break
    return count
