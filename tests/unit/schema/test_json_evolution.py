"""Verdicts on evolutions of JSON Schemas, by the rules that Confluent publishes for them."""

import json
from typing import Any

import pytest

from headrace.schema.compatibility import CompatibilityLevel, CompatibilityPolicy, check
from headrace.schema.parse import parse
from headrace.schema.schema import SchemaText, SchemaType
from testkit.sample.schema_evolution import Case, read, verify

TYPE = "TYPE_CHANGED"
SUBSCHEMAS = "COMBINED_TYPE_SUBSCHEMAS_CHANGED"
COMBINED = "COMBINED_TYPE_CHANGED"
OPTIONAL_TO_OPEN = "OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"
REQUIRED_TO_OPEN = "REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"
DEFAULT_TO_OPEN = "REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL"
REQUIRED_TO_UNOPEN = "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"
FROM_CLOSED = "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"
REQUIRED = "REQUIRED_ATTRIBUTE_ADDED"
ADDED_UNCOVERED = "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
REMOVED_UNCOVERED = "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"
NO_MORE = "ADDITIONAL_PROPERTIES_REMOVED"
ITEM_TO_OPEN = "ITEM_ADDED_TO_OPEN_CONTENT_MODEL"

STRING = {"type": "string"}
NUMBER = {"type": "number"}
INTEGER = {"type": "integer"}
NULL = {"type": "null"}


def case(name: str, old: Any, new: Any, backward: str = "", forward: str = "") -> Case:
    return Case(name, json.dumps(old), json.dumps(new), backward, forward)


def thing(
    *required: str, rest: Any = None, defaults: tuple[str, ...] = (), **properties: Any
) -> Any:
    """An object; `rest` is its additionalProperties."""
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    for name in defaults:
        properties[name] = {**properties[name], "default": 0}
    if required:
        schema["required"] = list(required)
    if rest is not None:
        schema["additionalProperties"] = rest
    return schema


def array(**words: Any) -> Any:
    return {"type": "array", **words}


def bounds() -> list[Case]:
    """Every bound: a new or a tighter one breaks, a wider or no one does not."""
    cases = []
    for kind, word, name in [
        ("string", "maxLength", "MAX_LENGTH"),
        ("number", "maximum", "MAXIMUM"),
        ("integer", "exclusiveMaximum", "EXCLUSIVE_MAXIMUM"),
        ("object", "maxProperties", "MAX_PROPERTIES"),
        ("array", "maxItems", "MAX_ITEMS"),
    ]:
        low, high, none = {"type": kind, word: 5}, {"type": kind, word: 9}, {"type": kind}
        cases += [
            case(f"{word} is raised", low, high, "", f"{name}_DECREASED"),
            case(f"{word} is lowered", high, low, f"{name}_DECREASED"),
            case(f"{word} is added", none, low, f"{name}_ADDED"),
            case(f"{word} is removed", low, none, "", f"{name}_ADDED"),
        ]
    for kind, word, name in [
        ("string", "minLength", "MIN_LENGTH"),
        ("number", "minimum", "MINIMUM"),
        ("integer", "exclusiveMinimum", "EXCLUSIVE_MINIMUM"),
        ("object", "minProperties", "MIN_PROPERTIES"),
        ("array", "minItems", "MIN_ITEMS"),
    ]:
        low, high, none = {"type": kind, word: 5}, {"type": kind, word: 9}, {"type": kind}
        cases += [
            case(f"{word} is raised", low, high, f"{name}_INCREASED"),
            case(f"{word} is lowered", high, low, "", f"{name}_INCREASED"),
            case(f"{word} is added", none, low, f"{name}_ADDED"),
            case(f"{word} is removed", low, none, "", f"{name}_ADDED"),
        ]
    return cases


def types() -> list[Case]:
    """Every pair of types: only an integer may become a number."""
    kinds = ["null", "boolean", "integer", "string", "array", "object"]
    return [
        case(f"{old} to {new}", {"type": old}, {"type": new}, TYPE, TYPE)
        for old in kinds
        for new in kinds
        if old != new
    ]


SCALARS = [
    case("nothing changes", STRING, STRING),
    case("integer to number", INTEGER, NUMBER, "", "TYPE_NARROWED"),
    case("number to integer", NUMBER, INTEGER, "TYPE_NARROWED", ""),
    case("a pattern is added", STRING, {**STRING, "pattern": "a"}, "PATTERN_ADDED"),
    case("a pattern is removed", {**STRING, "pattern": "a"}, STRING, "", "PATTERN_ADDED"),
    case(
        "a pattern is changed",
        {**STRING, "pattern": "a"},
        {**STRING, "pattern": "b"},
        "PATTERN_CHANGED",
        "PATTERN_CHANGED",
    ),
    case("multipleOf is added", NUMBER, {**NUMBER, "multipleOf": 2}, "MULTIPLE_OF_ADDED"),
    case("multipleOf is removed", {**NUMBER, "multipleOf": 2}, NUMBER, "", "MULTIPLE_OF_ADDED"),
    case(
        "multipleOf becomes a divisor",
        {**NUMBER, "multipleOf": 10},
        {**NUMBER, "multipleOf": 2},
        "",
        "MULTIPLE_OF_EXPANDED",
    ),
    case(
        "multipleOf becomes a multiple",
        {**NUMBER, "multipleOf": 2},
        {**NUMBER, "multipleOf": 10},
        "MULTIPLE_OF_EXPANDED",
        "",
    ),
    case(
        "multipleOf becomes another number",
        {**NUMBER, "multipleOf": 10},
        {**NUMBER, "multipleOf": 11},
        "MULTIPLE_OF_CHANGED",
        "MULTIPLE_OF_CHANGED",
    ),
    case(
        "title, description, default and id change",
        {**STRING, "title": "a"},
        {**STRING, "title": "b", "description": "c", "default": "d", "$id": "http://x/y"},
    ),
    case("a format is added", STRING, {**STRING, "format": "date"}),
    case("what is unknown is added", STRING, {**STRING, "x-color": "red"}),
    case("a type becomes anything", STRING, {}, "", TYPE),
    case("anything becomes a type", {}, STRING, TYPE, ""),
    case("a type becomes true", STRING, True, "", TYPE),
    case("false becomes a type", False, STRING, "", TYPE),
    case("a type becomes false", STRING, False, TYPE, ""),
]

ENUMS = [
    case("an enum gets a value", {"enum": ["a"]}, {"enum": ["a", "b"]}, "", "ENUM_ARRAY_NARROWED"),
    case("an enum loses a value", {"enum": ["a", "b"]}, {"enum": ["a"]}, "ENUM_ARRAY_NARROWED"),
    case("an enum's values change places", {"enum": ["a", "b"]}, {"enum": ["b", "a"]}),
    case(
        "an enum's value changes",
        {"enum": ["a"]},
        {"enum": ["b"]},
        "ENUM_ARRAY_CHANGED",
        "ENUM_ARRAY_CHANGED",
    ),
    case(
        "1 and true are different values",
        {"enum": [1]},
        {"enum": [True]},
        "ENUM_ARRAY_CHANGED",
        "ENUM_ARRAY_CHANGED",
    ),
    case(
        "a typed enum gets a value",
        {**STRING, "enum": ["a"]},
        {**STRING, "enum": ["a", "b"]},
        "",
        SUBSCHEMAS,
    ),
    case(
        "a typed enum loses a value",
        {**STRING, "enum": ["a", "b"]},
        {**STRING, "enum": ["a"]},
        SUBSCHEMAS,
        "",
    ),
    case("a typed enum becomes its type", {**STRING, "enum": ["a"]}, STRING, "", TYPE),
    case("a type gets an enum", STRING, {**STRING, "enum": ["a"]}, TYPE, ""),
    case(
        "a constant changes", {"const": 1}, {"const": 2}, "ENUM_ARRAY_CHANGED", "ENUM_ARRAY_CHANGED"
    ),
    case("a constant stays", {"const": {"a": 1, "b": 2}}, {"const": {"b": 2, "a": 1}}),
    case("an enum becomes a type", {"enum": ["a"]}, STRING, TYPE, TYPE),
]

OPEN = [
    case(
        "an optional property is added to an open model",
        thing(a=STRING),
        thing(a=STRING, b=STRING),
        OPTIONAL_TO_OPEN,
        "",
    ),
    case(
        "a required property is added to an open model",
        thing(a=STRING),
        thing("b", a=STRING, b=STRING),
        REQUIRED_TO_OPEN,
        "",
    ),
    case(
        "a required property with a default is added to an open model",
        thing(a=STRING),
        thing("b", a=STRING, b=NUMBER, defaults=("b",)),
        DEFAULT_TO_OPEN,
        "",
    ),
    case(
        "a property that accepts anything is added to an open model",
        thing(a=STRING),
        thing(a=STRING, b={}),
        "",
        "",
    ),
    case(
        "a property true is added to an open model",
        thing(a=STRING),
        thing(a=STRING, b=True),
        "",
        "",
    ),
    case(
        "a property is removed from an open model",
        thing(a=STRING, b=STRING),
        thing(a=STRING),
        "",
        OPTIONAL_TO_OPEN,
    ),
    case(
        "a required property is removed from an open model",
        thing("b", a=STRING, b=STRING),
        thing(a=STRING),
        "",
        REQUIRED_TO_OPEN,
    ),
    case(
        "a property is renamed in an open model",
        thing(a=STRING),
        thing(b=STRING),
        OPTIONAL_TO_OPEN,
        OPTIONAL_TO_OPEN,
    ),
    case("additionalProperties: true says nothing", thing(a=STRING), thing(a=STRING, rest=True)),
    case("an open model is closed", thing(a=STRING), thing(a=STRING, rest=False), NO_MORE, ""),
    case(
        "an open model is closed and gets a property",
        thing(a=STRING),
        thing(a=STRING, b=STRING, rest=False),
        f"{NO_MORE} {OPTIONAL_TO_OPEN}",
        "",
    ),
    case(
        "an open model becomes partially open",
        thing(a=STRING),
        thing(a=STRING, rest=STRING),
        "ADDITIONAL_PROPERTIES_NARROWED",
        "",
    ),
]

CLOSED = [
    case(
        "an optional property is added to a closed model",
        thing(a=STRING, rest=False),
        thing(a=STRING, b=STRING, rest=False),
        "",
        FROM_CLOSED,
    ),
    case(
        "a required property is added to a closed model",
        thing(a=STRING, rest=False),
        thing("b", a=STRING, b=STRING, rest=False),
        REQUIRED_TO_UNOPEN,
        FROM_CLOSED,
    ),
    case(
        "a required property with a default is added to a closed model",
        thing(a=STRING, rest=False),
        thing("b", a=STRING, b=NUMBER, rest=False, defaults=("b",)),
        "",
        FROM_CLOSED,
    ),
    case(
        "a property is removed from a closed model",
        thing(a=STRING, b=STRING, rest=False),
        thing(a=STRING, rest=False),
        FROM_CLOSED,
        "",
    ),
    case(
        "a property false is removed from a closed model",
        thing(a=STRING, b=False, rest=False),
        thing(a=STRING, rest=False),
        "",
        "",
    ),
    case("a closed model is opened", thing(a=STRING, rest=False), thing(a=STRING), "", NO_MORE),
    case(
        "a closed model is opened and loses a property",
        thing(a=STRING, b=STRING, rest=False),
        thing(a=STRING),
        "",
        f"{NO_MORE} {OPTIONAL_TO_OPEN}",
    ),
    case(
        "a closed model becomes partially open",
        thing(a=STRING, rest=False),
        thing(a=STRING, rest=STRING),
        "",
        NO_MORE,
    ),
    case(
        "a type in a closed model changes",
        thing(a=STRING, rest=False),
        thing(a=NUMBER, rest=False),
        TYPE,
        TYPE,
    ),
]

PARTLY = [
    case(
        "a property that fits is added to a partially open model",
        thing(a=STRING, rest=STRING),
        thing(a=STRING, b=STRING, rest=STRING),
    ),
    case(
        "a property that does not fit is added to a partially open model",
        thing(rest=STRING),
        thing(b=NUMBER, rest=STRING),
        f"{TYPE} {ADDED_UNCOVERED}",
        f"{TYPE} {REMOVED_UNCOVERED}",
    ),
    case(
        "a wider property is added to a partially open model",
        thing(rest=INTEGER),
        thing(b=NUMBER, rest=INTEGER),
        "",
        f"TYPE_NARROWED {REMOVED_UNCOVERED}",
    ),
    case(
        "a required property is added to a partially open model",
        thing(rest=STRING),
        thing("b", b=STRING, rest=STRING),
        REQUIRED_TO_UNOPEN,
        "",
    ),
    case(
        "a property that fits is removed from a partially open model",
        thing(b=STRING, rest=STRING),
        thing(rest=STRING),
    ),
    case(
        "a property that does not fit is removed from a partially open model",
        thing(b=NUMBER, rest=STRING),
        thing(rest=STRING),
        f"{TYPE} {REMOVED_UNCOVERED}",
        f"{TYPE} {ADDED_UNCOVERED}",
    ),
    case(
        "what is further allowed is widened",
        thing(rest=INTEGER),
        thing(rest=NUMBER),
        "",
        "TYPE_NARROWED",
    ),
    case("what is further allowed is changed", thing(rest=STRING), thing(rest=NUMBER), TYPE, TYPE),
    case(
        "what is further allowed becomes anything",
        thing(rest=STRING),
        thing(),
        "",
        "ADDITIONAL_PROPERTIES_NARROWED",
    ),
    case(
        "a property that a pattern covers is added",
        {"patternProperties": {"^i_": INTEGER}, "additionalProperties": False},
        {
            "properties": {"i_x": NUMBER},
            "patternProperties": {"^i_": INTEGER},
            "additionalProperties": False,
        },
        "",
        f"TYPE_NARROWED {REMOVED_UNCOVERED}",
    ),
    case(
        "a property that no pattern covers is added",
        {"patternProperties": {"^i_": INTEGER}, "additionalProperties": False},
        {
            "properties": {"x": NUMBER},
            "patternProperties": {"^i_": INTEGER},
            "additionalProperties": False,
        },
        "",
        FROM_CLOSED,
    ),
    case(
        "a pattern with look-ahead covers nothing",
        {"patternProperties": {"^(?=i)": INTEGER}, "additionalProperties": False},
        {
            "properties": {"i": STRING},
            "patternProperties": {"^(?=i)": INTEGER},
            "additionalProperties": False,
        },
        "",
        FROM_CLOSED,
    ),
    case(
        "a property covered by a union is removed",
        thing(b=STRING, rest={"oneOf": [NULL, STRING]}),
        thing(rest={"oneOf": [NULL, STRING]}),
        "",
        f"{TYPE} {ADDED_UNCOVERED}",
    ),
]

REQUIREMENTS = [
    case("a property becomes required", thing(a=STRING), thing("a", a=STRING), REQUIRED, ""),
    case("a property becomes optional", thing("a", a=STRING), thing(a=STRING), "", REQUIRED),
    case(
        "a property with a default becomes required",
        thing(a=NUMBER, defaults=("a",)),
        thing("a", a=NUMBER, defaults=("a",)),
    ),
    case("a name without a property becomes required", thing(a=STRING), thing("z", a=STRING)),
    case(
        "a dependency is added",
        {"dependencies": {}},
        {"dependencies": {"a": ["b"]}},
        "DEPENDENCY_ARRAY_ADDED",
        "",
    ),
    case(
        "a dependency gets a name",
        {"dependencies": {"a": ["b"]}},
        {"dependencies": {"a": ["b", "c"]}},
        "DEPENDENCY_ARRAY_EXTENDED",
        "",
    ),
    case(
        "a dependency changes its name",
        {"dependencies": {"a": ["b"]}},
        {"dependencies": {"a": ["c"]}},
        "DEPENDENCY_ARRAY_CHANGED",
        "DEPENDENCY_ARRAY_CHANGED",
    ),
    case(
        "a schema dependency is added",
        {"dependencies": {}},
        {"dependencies": {"a": thing(b=STRING)}},
        "DEPENDENCY_SCHEMA_ADDED",
        "",
    ),
    case(
        "a schema dependency changes its type",
        {"dependencies": {"a": STRING}},
        {"dependencies": {"a": NUMBER}},
        TYPE,
        TYPE,
    ),
    case(
        "a property inside a property becomes required",
        thing(o=thing(a=STRING)),
        thing(o=thing("a", a=STRING)),
        REQUIRED,
        "",
    ),
]

ARRAYS = [
    case("items get a schema", array(), array(items=STRING), "SCHEMA_ADDED", ""),
    case("items lose their schema", array(items=STRING), array(), "", "SCHEMA_ADDED"),
    case("items are widened", array(items=INTEGER), array(items=NUMBER), "", "TYPE_NARROWED"),
    case("items change", array(items=STRING), array(items=NUMBER), TYPE, TYPE),
    case("items must be unique", array(), array(uniqueItems=True), "UNIQUE_ITEMS_ADDED", ""),
    case(
        "items need no longer be unique",
        array(uniqueItems=True),
        array(uniqueItems=False),
        "",
        "UNIQUE_ITEMS_ADDED",
    ),
    case(
        "a place is added to an open list",
        array(items=[STRING]),
        array(items=[STRING, NUMBER]),
        ITEM_TO_OPEN,
        "",
    ),
    case(
        "a place for anything is added to an open list",
        array(items=[STRING]),
        array(items=[STRING, {}]),
    ),
    case(
        "a place is removed from an open list",
        array(items=[STRING, NUMBER]),
        array(items=[STRING]),
        "",
        ITEM_TO_OPEN,
    ),
    case(
        "a place is added to a closed list",
        array(items=[STRING], additionalItems=False),
        array(items=[STRING, NUMBER], additionalItems=False),
        "",
        "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    ),
    case(
        "a place is removed from a closed list",
        array(items=[STRING, NUMBER], additionalItems=False),
        array(items=[STRING], additionalItems=False),
        "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        "",
    ),
    case(
        "a place that fits is added to a partially open list",
        array(items=[STRING], additionalItems=NUMBER),
        array(items=[STRING, NUMBER], additionalItems=NUMBER),
    ),
    case(
        "a place that does not fit is added to a partially open list",
        array(items=[STRING], additionalItems=NUMBER),
        array(items=[STRING, STRING], additionalItems=NUMBER),
        f"{TYPE} ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
        f"{TYPE} ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL",
    ),
    case(
        "a list is closed",
        array(items=[STRING]),
        array(items=[STRING], additionalItems=False),
        "ADDITIONAL_ITEMS_REMOVED",
        "",
    ),
    case(
        "a list is narrowed",
        array(items=[STRING]),
        array(items=[STRING], additionalItems=STRING),
        "ADDITIONAL_ITEMS_NARROWED",
        "",
    ),
    case("a place changes its type", array(items=[STRING]), array(items=[NUMBER]), TYPE, TYPE),
]

COMBINATIONS = [
    case("a type becomes one of a oneOf", STRING, {"oneOf": [NUMBER, STRING]}, "", TYPE),
    case("a type becomes one of an anyOf", STRING, {"anyOf": [NUMBER, STRING]}, "", TYPE),
    case("a type becomes one of a list of types", STRING, {"type": ["null", "string"]}, "", TYPE),
    case("a list of types becomes one of them", {"type": ["null", "string"]}, STRING, TYPE, ""),
    case(
        "a list of types gets another",
        {"type": ["null", "string"]},
        {"type": ["null", "string", "number"]},
        "",
        "SUM_TYPE_NARROWED",
    ),
    case(
        "a list of types changes places", {"type": ["null", "string"]}, {"type": ["string", "null"]}
    ),
    case(
        "a list of types changes",
        {"type": ["null", "string"]},
        {"type": ["null", "number"]},
        SUBSCHEMAS,
        SUBSCHEMAS,
    ),
    case("a type becomes a single allOf", STRING, {"allOf": [STRING]}),
    case("a type becomes an allOf of two", STRING, {"allOf": [STRING, {"maxLength": 3}]}, TYPE, ""),
    case(
        "an allOf of two becomes one of them",
        {"allOf": [STRING, {"enum": ["a"]}]},
        STRING,
        "",
        TYPE,
    ),
    case(
        "a oneOf gets a branch",
        {"oneOf": [STRING]},
        {"oneOf": [STRING, NUMBER]},
        "",
        "SUM_TYPE_NARROWED",
    ),
    case(
        "a oneOf loses a branch",
        {"oneOf": [STRING, NUMBER]},
        {"oneOf": [STRING]},
        "SUM_TYPE_NARROWED",
        "",
    ),
    case(
        "a oneOf changes a branch",
        {"oneOf": [STRING, NULL]},
        {"oneOf": [NUMBER, NULL]},
        SUBSCHEMAS,
        SUBSCHEMAS,
    ),
    case(
        "a oneOf widens a branch",
        {"oneOf": [INTEGER, NULL]},
        {"oneOf": [NUMBER, NULL]},
        "",
        SUBSCHEMAS,
    ),
    case("a oneOf has a branch twice", {"oneOf": [STRING, STRING]}, {"oneOf": [STRING]}),
    case(
        "an allOf gets a branch",
        {"allOf": [STRING]},
        {"allOf": [STRING, {"minLength": 1}]},
        "PRODUCT_TYPE_EXTENDED",
        "",
    ),
    case(
        "an allOf loses a branch",
        {"allOf": [STRING, {"enum": ["a"]}]},
        {"allOf": [STRING]},
        "",
        "PRODUCT_TYPE_EXTENDED",
    ),
    case(
        "a oneOf becomes an anyOf",
        {"oneOf": [STRING, NULL]},
        {"anyOf": [STRING, NULL]},
        "",
        COMBINED,
    ),
    case(
        "an allOf becomes an anyOf",
        {"allOf": [STRING, {"minLength": 1}]},
        {"anyOf": [STRING, {"minLength": 1}]},
        "",
        COMBINED,
    ),
    case(
        "an anyOf of one becomes a oneOf",
        {"anyOf": [STRING]},
        {"oneOf": [STRING, NULL]},
        "",
        "SUM_TYPE_NARROWED",
    ),
    case("a oneOf of one becomes an allOf of one", {"oneOf": [STRING]}, {"allOf": [STRING]}),
    case(
        "a oneOf becomes an allOf",
        {"oneOf": [STRING, NULL]},
        {"allOf": [STRING, NULL]},
        COMBINED,
        COMBINED,
    ),
    case(
        "what is ruled out is narrowed", {"not": NUMBER}, {"not": INTEGER}, "", "NOT_TYPE_EXTENDED"
    ),
    case(
        "what is ruled out is widened", {"not": INTEGER}, {"not": NUMBER}, "NOT_TYPE_EXTENDED", ""
    ),
    case(
        "branches need partners of their own",
        {"anyOf": [INTEGER, NUMBER]},
        {"anyOf": [NUMBER, STRING]},
        SUBSCHEMAS,
        SUBSCHEMAS,
    ),
    case(
        "a condition is changed",
        {"if": STRING, "then": {"minLength": 1}},
        {"if": STRING, "then": {"minLength": 2}},
    ),
]

REFERENCES = [
    case(
        "a type becomes a reference to it",
        STRING,
        {"$ref": "#/definitions/s", "definitions": {"s": STRING}},
    ),
    case(
        "what is referred to changes",
        array(items={"$ref": "#/definitions/s"}, definitions={"s": STRING}),
        array(items={"$ref": "#/definitions/s"}, definitions={"s": NUMBER}),
        TYPE,
        TYPE,
    ),
    case(
        "a definition is renamed",
        {"$ref": "#/definitions/a", "definitions": {"a": STRING}},
        {"$ref": "#/definitions/b", "definitions": {"b": STRING}},
    ),
    case(
        "a recursive schema stays",
        thing(next={"$ref": "#"}, rest=False),
        thing(next={"$ref": "#"}, rest=False),
    ),
    case(
        "a recursive schema gets a property",
        thing(next={"$ref": "#"}, rest=False),
        thing(next={"$ref": "#"}, a=STRING, rest=False),
        "",
        FROM_CLOSED,
    ),
    case(
        "an unused definition changes",
        {**STRING, "definitions": {"s": STRING}},
        {**STRING, "definitions": {"s": NUMBER}},
    ),
    case(
        "up to draft 7 nothing beside a reference counts",
        {"$ref": "#/definitions/s", "definitions": {"s": STRING}},
        {"$ref": "#/definitions/s", "maxLength": 1, "definitions": {"s": STRING}},
    ),
]

D4 = {"$schema": "http://json-schema.org/draft-04/schema#"}
D2019 = {"$schema": "https://json-schema.org/draft/2019-09/schema"}
D2020 = {"$schema": "https://json-schema.org/draft/2020-12/schema"}

DRAFTS = [
    case(
        "draft 4: an exclusive maximum is lowered",
        {**D4, **NUMBER, "maximum": 9, "exclusiveMaximum": True},
        {**D4, **NUMBER, "maximum": 5, "exclusiveMaximum": True},
        "EXCLUSIVE_MAXIMUM_DECREASED",
    ),
    case(
        "draft 4 to 7: the same exclusive minimum",
        {**D4, **NUMBER, "minimum": 9, "exclusiveMinimum": True},
        {**NUMBER, "exclusiveMinimum": 9},
    ),
    case(
        "2019: unevaluatedProperties close a model",
        {**D2019, **thing(a=STRING)},
        {**D2019, **thing(a=STRING), "unevaluatedProperties": False},
        "UNEVALUATED_PROPERTIES_REMOVED",
        "",
    ),
    case(
        "2019: a property is added to such a model",
        {**D2019, **thing(a=STRING), "unevaluatedProperties": False},
        {**D2019, **thing(a=STRING, b=STRING), "unevaluatedProperties": False},
        "",
        FROM_CLOSED,
    ),
    case(
        "2019: dependentRequired is added",
        {**D2019, **thing(a=STRING)},
        {**D2019, **thing(a=STRING), "dependentRequired": {"a": ["b"]}},
        "DEPENDENCY_ARRAY_ADDED",
        "",
    ),
    case(
        "2019: maxContains is added",
        {**D2019, **array(contains=STRING)},
        {**D2019, **array(contains=STRING, maxContains=3)},
        "MAX_CONTAINS_ADDED",
        "",
    ),
    case(
        "2019: minContains is raised",
        {**D2019, **array(contains=STRING)},
        {**D2019, **array(contains=STRING, minContains=2)},
        "MIN_CONTAINS_INCREASED",
        "",
    ),
    case(
        "2020: a place is added to an open list",
        {**D2020, **array(prefixItems=[STRING])},
        {**D2020, **array(prefixItems=[STRING, NUMBER])},
        ITEM_TO_OPEN,
        "",
    ),
    case(
        "2020: a place is added to a closed list",
        {**D2020, **array(prefixItems=[STRING], items=False)},
        {**D2020, **array(prefixItems=[STRING, NUMBER], items=False)},
        "",
        "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL",
    ),
    case(
        "2020: items are widened",
        {**D2020, **array(items=INTEGER)},
        {**D2020, **array(items=NUMBER)},
        "",
        "TYPE_NARROWED",
    ),
    case(
        "2020: unevaluatedItems close a list",
        {**D2020, **array(prefixItems=[STRING])},
        {**D2020, **array(prefixItems=[STRING], unevaluatedItems=False)},
        "UNEVALUATED_ITEMS_REMOVED",
        "",
    ),
    case(
        "2020: keywords beside a reference count",
        {**D2020, "$ref": "#/$defs/s", "$defs": {"s": STRING}},
        {**D2020, "$ref": "#/$defs/s", "maxLength": 1, "$defs": {"s": STRING}},
        TYPE,
        "",
    ),
    case(
        "7 to 2020: the same list",
        array(items=[STRING], additionalItems=False),
        {**D2020, **array(prefixItems=[STRING], items=False)},
    ),
    case(
        "2020: an anchor is referred to",
        {**D2020, **array(items={"$ref": "#a"}, **{"$defs": {"x": {**STRING, "$anchor": "a"}}})},
        {**D2020, **array(items=STRING)},
    ),
]

CASES = [
    *bounds(),
    *types(),
    *SCALARS,
    *ENUMS,
    *OPEN,
    *CLOSED,
    *PARTLY,
    *REQUIREMENTS,
    *ARRAYS,
    *COMBINATIONS,
    *REFERENCES,
    *DRAFTS,
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_verdicts(case: Case) -> None:
    verify(case, lambda text: read(SchemaType.JSON, text))


def test_there_are_enough_cases_and_none_twice() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 100


LENIENT = {
    "an optional property": (thing(a=STRING), thing(a=STRING, b=STRING), True),
    "a required property with a default": (thing(), thing("b", b=NUMBER, defaults=("b",)), True),
    "a required property": (thing(), thing("b", b=STRING), False),
    "a closed model": (thing(a=STRING), thing(a=STRING, rest=False), True),
    "another type": (thing(a=STRING), thing(a=NUMBER), False),
}


@pytest.mark.parametrize("old, new, compatible", LENIENT.values(), ids=LENIENT.keys())
def test_the_lenient_policy_lets_open_models_grow(old: Any, new: Any, compatible: bool) -> None:
    schemas = [read(SchemaType.JSON, json.dumps(each)) for each in (old, new)]
    found = check(CompatibilityLevel.BACKWARD, schemas[1], schemas[:1], CompatibilityPolicy.LENIENT)
    assert (not found) is compatible


@pytest.mark.parametrize("kind", [SchemaType.JSON, SchemaType.AVRO])
def test_reserved_names_stay_reserved_and_unused(kind: SchemaType) -> None:
    if kind is SchemaType.JSON:
        old_text = json.dumps(thing(rest=False))
        new_text = json.dumps(thing(cost=STRING, rest=False))
    else:
        old_text = '{"type": "record", "name": "R", "fields": []}'
        new_text = old_text.replace("[]", '[{"name": "cost", "type": "int", "default": 0}]')
    old = parse(SchemaText(kind, old_text, reserved=frozenset(["cost", "status"])))
    new = parse(SchemaText(kind, new_text, reserved=frozenset(["cost"])))
    word = "PROPERTY" if kind is SchemaType.JSON else "FIELD"
    found = {each.type for each in check(CompatibilityLevel.BACKWARD, new, [old])}
    assert found == {f"RESERVED_{word}_REMOVED", f"RESERVED_{word}_CONFLICTS_WITH_{word}"}
