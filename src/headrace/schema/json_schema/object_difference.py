"""Differences of objects: their properties under the content model, what is required, what depends.

An object's content model is open when it allows any further property, closed when it allows none,
and partially open when a schema says which: `patternProperties`, `additionalProperties`,
`unevaluatedProperties`.

- A property may be added only where the writer cannot have written anything under its name: to a
  model that is not open. With a partially open one, the property must accept what that accepted.
- A property may be removed only where the reader accepts it still: from an open model, or when a
  partially open one accepts what it accepted.
"""

from headrace.schema.json_schema.comparison import Comparison
from headrace.schema.json_schema.difference import Differences, under
from headrace.schema.json_schema.node import Anything, Node, Nothing, Object
from headrace.schema.json_schema.scalar_difference import lower_bound, upper_bound


def object_differences(comparison: Comparison, original: Object, update: Object) -> Differences:
    found = under("required", _required(comparison, original, update))
    found += under("properties", _properties(comparison, original, update))
    found += under("dependencies", _dependencies(comparison, original, update))
    found += further_differences(
        comparison,
        "additionalProperties",
        "ADDITIONAL_PROPERTIES",
        original.additional,
        update.additional,
    )
    found += further_differences(
        comparison,
        "unevaluatedProperties",
        "UNEVALUATED_PROPERTIES",
        original.unevaluated,
        update.unevaluated,
    )
    found += upper_bound(
        comparison,
        "maxProperties",
        "MAX_PROPERTIES",
        original.max_properties,
        update.max_properties,
    )
    found += lower_bound(
        comparison,
        "minProperties",
        "MIN_PROPERTIES",
        original.min_properties,
        update.min_properties,
    )
    return found


def further_differences(
    comparison: Comparison, word: str, name: str, original: Node, update: Node
) -> Differences:
    """Compare what is allowed beyond the listed properties or items."""
    if isinstance(update, Anything) or isinstance(original, Nothing):
        return []
    if isinstance(update, Nothing):
        return comparison.because(f"{name}_REMOVED", word)
    if isinstance(original, Anything):
        return comparison.because(f"{name}_NARROWED", word)
    return under(word, comparison.compare(original, update))


def _required(comparison: Comparison, original: Object, update: Object) -> Differences:
    return [
        each
        for name in original.properties
        if name in update.properties
        and name in update.required
        and name not in original.required
        and not update.properties[name].has_default
        for each in comparison.because("REQUIRED_ATTRIBUTE_ADDED", name)
    ]


def _properties(comparison: Comparison, original: Object, update: Object) -> Differences:
    found: Differences = []
    for name, schema in original.properties.items():
        if name in update.properties:
            found += under(name, comparison.compare(schema, update.properties[name]))
        else:
            found += under(name, _removed(comparison, name, schema, update))
    for name, schema in update.properties.items():
        if name not in original.properties:
            required = name in update.required
            found += under(name, _added(comparison, name, schema, original, required))
    return found


def _removed(comparison: Comparison, name: str, schema: Node, update: Object) -> Differences:
    if _is_open(update):
        return []
    covering = _covering(comparison, update, name)
    if covering is not None:
        found = comparison.compare(schema, covering)
        if not found:
            return []
        kind = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
        return [*found, *comparison.because(kind)]
    if isinstance(schema, Nothing):
        return []
    return comparison.because("PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL")


def _added(
    comparison: Comparison, name: str, schema: Node, original: Object, required: bool
) -> Differences:
    if _is_open(original):
        if isinstance(schema, Anything):
            return []
        if not required:
            return comparison.because("OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL")
        if schema.has_default:
            return comparison.because("REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL")
        return comparison.because("REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL")
    found: Differences = []
    covering = _covering(comparison, original, name)
    if covering is not None:
        found = list(comparison.compare(covering, schema))
        if found:
            kind = "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
            found += comparison.because(kind)
    if required and not schema.has_default:
        found += comparison.because("REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL")
    return found


def _is_open(schema: Object) -> bool:
    further = isinstance(schema.additional, Anything) and isinstance(schema.unevaluated, Anything)
    return further and not schema.patterns


def _covering(comparison: Comparison, schema: Object, name: str) -> Node | None:
    """Return the schema that a partially open content model has for a name."""
    comparison.limit.spend(len(schema.patterns) * (1 + len(name) // 64))
    for pattern, inner in schema.patterns.items():
        if comparison.patterns.matches(pattern, name):
            return inner
    return covering_rest(schema.additional, schema.unevaluated)


def covering_rest(additional: Node, unevaluated: Node) -> Node | None:
    """Return the schema of what is not listed, if there is one that says more than yes or no."""
    if not isinstance(additional, Anything | Nothing):
        return additional
    if isinstance(additional, Anything) and not isinstance(unevaluated, Anything | Nothing):
        return unevaluated
    return None


def _dependencies(comparison: Comparison, original: Object, update: Object) -> Differences:
    found: Differences = []
    for name, needed in update.dependent_required.items():
        before = original.dependent_required.get(name)
        if before is None:
            found += comparison.because("DEPENDENCY_ARRAY_ADDED", name)
        elif needed > before:
            found += comparison.because("DEPENDENCY_ARRAY_EXTENDED", name)
        elif not needed <= before:
            found += comparison.because("DEPENDENCY_ARRAY_CHANGED", name)
    for name, schema in update.dependent_schemas.items():
        if name in original.dependent_schemas:
            inner = comparison.compare(original.dependent_schemas[name], schema)
            found += under(name, inner)
        else:
            found += comparison.because("DEPENDENCY_SCHEMA_ADDED", name)
    return found
