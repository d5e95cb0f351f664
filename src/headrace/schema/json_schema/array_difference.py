"""Differences of arrays: one schema for all items, or one per place and a rest."""

from headrace.schema.json_schema.comparison import Comparison
from headrace.schema.json_schema.difference import Differences, under
from headrace.schema.json_schema.node import Anything, Array, Node, Nothing
from headrace.schema.json_schema.object_difference import covering_rest, further_differences
from headrace.schema.json_schema.scalar_difference import lower_bound, upper_bound


def array_differences(comparison: Comparison, original: Array, update: Array) -> Differences:
    found = under("items", _all_items(comparison, original.items, update.items))
    found += _places(comparison, original, update)
    found += further_differences(
        comparison, "additionalItems", "ADDITIONAL_ITEMS", original.additional, update.additional
    )
    found += further_differences(
        comparison,
        "unevaluatedItems",
        "UNEVALUATED_ITEMS",
        original.unevaluated,
        update.unevaluated,
    )
    found += upper_bound(comparison, "maxItems", "MAX_ITEMS", original.max_items, update.max_items)
    found += lower_bound(comparison, "minItems", "MIN_ITEMS", original.min_items, update.min_items)
    if update.is_unique and not original.is_unique:
        found += comparison.because("UNIQUE_ITEMS_ADDED", "uniqueItems")
    found += upper_bound(
        comparison, "maxContains", "MAX_CONTAINS", original.max_contains, update.max_contains
    )
    found += lower_bound(
        comparison, "minContains", "MIN_CONTAINS", original.min_contains, update.min_contains
    )
    return found


def _all_items(comparison: Comparison, original: Node | None, update: Node | None) -> Differences:
    if update is None:
        return []
    if original is None:
        return comparison.because("SCHEMA_ADDED")
    return comparison.compare(original, update)


def _places(comparison: Comparison, original: Array, update: Array) -> Differences:
    found: Differences = []
    both = min(len(original.prefix), len(update.prefix))
    for index in range(max(len(original.prefix), len(update.prefix))):
        if index < both:
            inner = comparison.compare(original.prefix[index], update.prefix[index])
        elif index < len(original.prefix):
            inner = _removed(comparison, original.prefix[index], update)
        else:
            inner = _added(comparison, update.prefix[index], original)
        found += under("items", under(str(index), inner))
    return found


def _removed(comparison: Comparison, schema: Node, update: Array) -> Differences:
    if _is_open(update):
        return []
    covering = covering_rest(update.additional, update.unevaluated)
    if covering is not None:
        found = comparison.compare(schema, covering)
        if not found:
            return []
        kind = "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        return [*found, *comparison.because(kind)]
    if isinstance(schema, Nothing):
        return []
    return comparison.because("ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL")


def _added(comparison: Comparison, schema: Node, original: Array) -> Differences:
    if _is_open(original):
        if isinstance(schema, Anything):
            return []
        return comparison.because("ITEM_ADDED_TO_OPEN_CONTENT_MODEL")
    covering = covering_rest(original.additional, original.unevaluated)
    if covering is None:
        return []
    found = comparison.compare(covering, schema)
    if not found:
        return []
    kind = "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
    return [*found, *comparison.because(kind)]


def _is_open(schema: Array) -> bool:
    return isinstance(schema.additional, Anything) and isinstance(schema.unevaluated, Anything)
