"""Differences of strings, numbers, enums and of bounds in general."""

from headrace.schema.json_schema.comparison import Comparison
from headrace.schema.json_schema.difference import Differences
from headrace.schema.json_schema.node import Constant, Enumeration, Number, String


def lower_bound(
    comparison: Comparison, word: str, name: str, original: float | None, update: float | None
) -> Differences:
    """Compare minLength and its like: a bound that is new or higher breaks."""
    if update is None or original == update:
        return []
    if original is None:
        return comparison.because(f"{name}_ADDED", word)
    return comparison.because(f"{name}_INCREASED", word) if update > original else []


def upper_bound(
    comparison: Comparison, word: str, name: str, original: float | None, update: float | None
) -> Differences:
    """Compare maxLength and its like: a bound that is new or lower breaks."""
    if update is None or original == update:
        return []
    if original is None:
        return comparison.because(f"{name}_ADDED", word)
    return comparison.because(f"{name}_DECREASED", word) if update < original else []


def string_differences(comparison: Comparison, original: String, update: String) -> Differences:
    found = upper_bound(
        comparison, "maxLength", "MAX_LENGTH", original.max_length, update.max_length
    )
    found += lower_bound(
        comparison, "minLength", "MIN_LENGTH", original.min_length, update.min_length
    )
    if update.pattern is not None and original.pattern != update.pattern:
        kind = "PATTERN_ADDED" if original.pattern is None else "PATTERN_CHANGED"
        found += comparison.because(kind, "pattern")
    return found


def number_differences(comparison: Comparison, original: Number, update: Number) -> Differences:
    found = upper_bound(comparison, "maximum", "MAXIMUM", original.maximum, update.maximum)
    found += lower_bound(comparison, "minimum", "MINIMUM", original.minimum, update.minimum)
    found += upper_bound(
        comparison,
        "exclusiveMaximum",
        "EXCLUSIVE_MAXIMUM",
        original.exclusive_maximum,
        update.exclusive_maximum,
    )
    found += lower_bound(
        comparison,
        "exclusiveMinimum",
        "EXCLUSIVE_MINIMUM",
        original.exclusive_minimum,
        update.exclusive_minimum,
    )
    found += _multiple(comparison, original.multiple_of, update.multiple_of)
    if update.is_integer and not original.is_integer:
        found += comparison.because("TYPE_NARROWED")
    return found


def _multiple(comparison: Comparison, original: float | None, update: float | None) -> Differences:
    if update is None or original == update:
        return []
    if original is None:
        return comparison.because("MULTIPLE_OF_ADDED", "multipleOf")
    if _divides(original, update):
        return comparison.because("MULTIPLE_OF_EXPANDED", "multipleOf")
    if _divides(update, original):
        return []
    return comparison.because("MULTIPLE_OF_CHANGED", "multipleOf")


def _divides(small: float, large: float) -> bool:
    try:
        times = large / small
    except OverflowError:  # whole numbers may have thousands of digits
        return isinstance(large, int) and isinstance(small, int) and large % small == 0
    return 0.5 < times < 1e15 and abs(times - round(times)) < 1e-9


def enum_differences(
    comparison: Comparison, original: Enumeration, update: Enumeration
) -> Differences:
    if update.values >= original.values:
        return []
    kind = "ENUM_ARRAY_NARROWED" if update.values < original.values else "ENUM_ARRAY_CHANGED"
    return comparison.because(kind, "enum")


def constant_differences(
    comparison: Comparison, original: Constant, update: Constant
) -> Differences:
    if original.value == update.value:
        return []
    return comparison.because("ENUM_ARRAY_CHANGED", "const")
