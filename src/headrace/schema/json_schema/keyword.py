"""What the value of each keyword must look like, per draft.

A keyword that a draft does not know is an annotation: it is kept and not looked at.
"""

from collections.abc import Callable
from typing import Any, Final

from headrace.schema.error import InvalidSchema
from headrace.schema.json_schema.draft import Draft
from headrace.schema.json_schema.pattern import PatternTable

TYPES: Final = frozenset(["array", "boolean", "integer", "null", "number", "object", "string"])

Shape = Callable[[Any, Draft], str | None]


def check_keywords(schema: dict[str, Any], draft: Draft, path: str, patterns: PatternTable) -> None:
    """Raise InvalidSchema for the first keyword whose value is not of its shape."""
    for keyword, value in schema.items():
        shape = _SHAPES.get(keyword)
        if shape is None or draft < _SINCE.get(keyword, Draft.FOUR):
            continue
        fault = shape(value, draft)
        if fault:
            raise InvalidSchema(f"'{keyword}' at {path or '#'} must be {fault}")
    for pattern in (*schema.get("patternProperties", ()), *_single(schema.get("pattern"))):
        fault = patterns.fault(pattern)
        if fault:
            raise InvalidSchema(f"a pattern at {path or '#'} must be {fault}")


def _single(pattern: str | None) -> tuple[str, ...]:
    return () if pattern is None else (pattern,)


def is_schema(value: Any) -> bool:
    return isinstance(value, dict | bool)


def _a_schema(value: Any, draft: Draft) -> str | None:
    if draft is Draft.FOUR and isinstance(value, bool):
        # Draft 4 has no true and false as schemas; Confluent's registry takes them all the same.
        return None
    return None if is_schema(value) else "a schema"


def _schemas(value: Any, draft: Draft) -> str | None:
    good = isinstance(value, list) and value and all(map(is_schema, value))
    return None if good else "a list of at least one schema"


def _items(value: Any, draft: Draft) -> str | None:
    if isinstance(value, list) and draft < Draft.D2020_12:
        return None if all(map(is_schema, value)) else "a schema or a list of schemas"
    return None if is_schema(value) else "a schema"


def _schema_map(value: Any, draft: Draft) -> str | None:
    good = isinstance(value, dict) and all(map(is_schema, value.values()))
    return None if good else "an object of schemas"


def _dependencies(value: Any, draft: Draft) -> str | None:
    good = isinstance(value, dict) and all(
        is_schema(each) or not _strings(each, draft) for each in value.values()
    )
    return None if good else "an object of schemas or lists of property names"


def _string_lists(value: Any, draft: Draft) -> str | None:
    good = isinstance(value, dict) and not any(_strings(each, draft) for each in value.values())
    return None if good else "an object of lists of property names"


def _strings(value: Any, draft: Draft) -> str | None:
    good = isinstance(value, list) and all(isinstance(each, str) for each in value)
    return None if good else "a list of strings"


def _type(value: Any, draft: Draft) -> str | None:
    names = value if isinstance(value, list) else [value]
    good = all(isinstance(each, str) and each in TYPES for each in names)
    if not good or not names or len(set(names)) < len(names):
        return f"one of {', '.join(sorted(TYPES))}, or a list of different ones"
    return None


def _values(value: Any, draft: Draft) -> str | None:
    return None if isinstance(value, list) else "a list of values"


def _count(value: Any, draft: Draft) -> str | None:
    good = _is_number(value) and value >= 0 and value == int(value)
    return None if good else "a whole number that is not negative"


def _number(value: Any, draft: Draft) -> str | None:
    return None if _is_number(value) else "a number"


def _exclusive(value: Any, draft: Draft) -> str | None:
    if draft is Draft.FOUR:
        return None if isinstance(value, bool) else "true or false in draft 4"
    # Draft 4's form is common in documents that name no draft.
    return None if isinstance(value, bool) or _is_number(value) else "a number"


def _positive(value: Any, draft: Draft) -> str | None:
    return None if _is_number(value) and value > 0 else "a number above 0"


def _boolean(value: Any, draft: Draft) -> str | None:
    return None if isinstance(value, bool) else "true or false"


def _string(value: Any, draft: Draft) -> str | None:
    return None if isinstance(value, str) else "a string"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_SHAPES: Final[dict[str, Shape]] = {
    "$schema": _string,
    "$id": _string,
    "$ref": _string,
    "$anchor": _string,
    "$dynamicAnchor": _string,
    "$dynamicRef": _string,
    "title": _string,
    "description": _string,
    "type": _type,
    "enum": _values,
    "allOf": _schemas,
    "anyOf": _schemas,
    "oneOf": _schemas,
    "not": _a_schema,
    "if": _a_schema,
    "then": _a_schema,
    "else": _a_schema,
    "minLength": _count,
    "maxLength": _count,
    "pattern": _string,
    "minimum": _number,
    "maximum": _number,
    "exclusiveMinimum": _exclusive,
    "exclusiveMaximum": _exclusive,
    "multipleOf": _positive,
    "items": _items,
    "prefixItems": _schemas,
    "additionalItems": _a_schema,
    "unevaluatedItems": _a_schema,
    "contains": _a_schema,
    "minItems": _count,
    "maxItems": _count,
    "minContains": _count,
    "maxContains": _count,
    "uniqueItems": _boolean,
    "properties": _schema_map,
    "patternProperties": _schema_map,
    "additionalProperties": _a_schema,
    "unevaluatedProperties": _a_schema,
    "propertyNames": _a_schema,
    "required": _strings,
    "dependencies": _dependencies,
    "dependentRequired": _string_lists,
    "dependentSchemas": _schema_map,
    "minProperties": _count,
    "maxProperties": _count,
    "definitions": _schema_map,
    "$defs": _schema_map,
}
_SINCE: Final = {
    "$id": Draft.SIX,
    "contains": Draft.SIX,
    "propertyNames": Draft.SIX,
    "if": Draft.SEVEN,
    "then": Draft.SEVEN,
    "else": Draft.SEVEN,
    "$anchor": Draft.D2019_09,
    "unevaluatedItems": Draft.D2019_09,
    "unevaluatedProperties": Draft.D2019_09,
    "minContains": Draft.D2019_09,
    "maxContains": Draft.D2019_09,
    "dependentRequired": Draft.D2019_09,
    "dependentSchemas": Draft.D2019_09,
    "$defs": Draft.D2019_09,
    "$dynamicAnchor": Draft.D2020_12,
    "$dynamicRef": Draft.D2020_12,
    "prefixItems": Draft.D2020_12,
}
