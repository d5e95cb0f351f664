"""Differences of two schemas of any kind.

1. A schema that became one branch of an anyOf or oneOf, or lost its sisters in an allOf, is
   compared as that branch.
2. What accepts everything replaces anything; anything replaces what accepts nothing.
3. Otherwise both are of one kind, and are compared by its rules.
"""

from headrace.schema.json_schema.array_difference import array_differences
from headrace.schema.json_schema.combined_difference import combined_differences
from headrace.schema.json_schema.comparison import Comparison
from headrace.schema.json_schema.difference import Differences
from headrace.schema.json_schema.node import (
    Anything,
    Array,
    Combined,
    Constant,
    Enumeration,
    Node,
    Not,
    Nothing,
    Number,
    Object,
    String,
    followed,
)
from headrace.schema.json_schema.object_difference import object_differences
from headrace.schema.json_schema.scalar_difference import (
    constant_differences,
    enum_differences,
    number_differences,
    string_differences,
)


def schema_differences(comparison: Comparison, original: Node, update: Node) -> Differences:
    """Return what keeps a reader with `update` from what a writer with `original` writes."""
    original, update = followed(original), followed(update)
    if _is_one_branch(comparison, original, update):
        return []
    if type(original) is not type(update):
        if isinstance(original, Nothing) or isinstance(update, Anything):
            return []
        return comparison.because("TYPE_CHANGED")
    match original, update:
        case String(), String():
            return string_differences(comparison, original, update)
        case Number(), Number():
            return number_differences(comparison, original, update)
        case Enumeration(), Enumeration():
            return enum_differences(comparison, original, update)
        case Constant(), Constant():
            return constant_differences(comparison, original, update)
        case Combined(), Combined():
            return combined_differences(comparison, original, update)
        case Not(), Not():
            # What must not match is compared the other way round.
            narrowed = not comparison.compare(update.inner, original.inner)
            return [] if narrowed else comparison.because("NOT_TYPE_EXTENDED", "not")
        case Object(), Object():
            return object_differences(comparison, original, update)
        case Array(), Array():
            return array_differences(comparison, original, update)
    return []


def _is_one_branch(comparison: Comparison, original: Node, update: Node) -> bool:
    if isinstance(update, Combined) and not isinstance(original, Combined):
        if update.criterion == "allOf" and len(update.branches) > 1:
            return False
        return any(not comparison.compare(original, each) for each in update.branches)
    if isinstance(original, Combined) and not isinstance(update, Combined):
        if original.criterion != "allOf" and len(original.branches) > 1:
            return False
        return any(not comparison.compare(each, update) for each in original.branches)
    return False
