"""What the comparisons of all kinds of schemas share.

The schema of the writer is `original`, that of the reader is `update`: a difference is what keeps
the reader from accepting what the writer may write. A pair of schemas is compared once and then
looked up. A pair that comes up inside itself, in a recursive schema, counts as compatible.
"""

from typing import Final, Protocol

from headrace.schema.json_schema.difference import LENIENT, Difference, Differences
from headrace.schema.json_schema.node import Node, followed, weight
from headrace.schema.json_schema.pattern import PatternTable
from headrace.schema.json_schema.value_shape import ValueShapes
from headrace.schema.limit import MAX_REASONS, WorkLimit

# Members of a schema that are looked at in the time that a pair takes.
_PARTS_PER_STEP: Final = 4


class Comparator(Protocol):
    """Compares two schemas of any kind; `Comparison` is handed through to inner ones."""

    def __call__(self, comparison: "Comparison", original: Node, update: Node) -> Differences: ...


class Comparison:
    """One comparison of two documents: what has been compared, and how strictly."""

    def __init__(self, comparator: Comparator, lenient: bool, limit: WorkLimit) -> None:
        self.shapes = ValueShapes()
        self.patterns = PatternTable()
        self._comparator = comparator
        self._lenient = lenient
        self._known: dict[tuple[int, int], Differences] = {}
        self.limit = limit

    def compare(self, original: Node, update: Node) -> Differences:
        """Return the breaking differences of two schemas, paths relative to them."""
        original, update = followed(original), followed(update)
        pair = id(original), id(update)
        known = self._known.get(pair)
        if known is not None:
            return known
        self.limit.spend(1 + (weight(original) + weight(update)) // _PARTS_PER_STEP)
        self._known[pair] = []
        found = self._comparator(self, original, update)[:MAX_REASONS]
        self._known[pair] = found
        return found

    def because(self, kind: str, *path: str) -> Differences:
        """Return one difference, or none if the policy allows it."""
        return [] if self._lenient and kind in LENIENT else [Difference(kind, path)]
