"""Verdicts on evolutions of Avro schemas, by the rules of Avro's schema resolution."""

import json
from typing import Any

import pytest

from headrace.schema.schema import SchemaType
from testkit.sample.schema_evolution import Case, read, verify

MISSING = "READER_FIELD_MISSING_DEFAULT_VALUE"
TYPE = "TYPE_MISMATCH"
NAME = "NAME_MISMATCH"
SYMBOLS = "MISSING_ENUM_SYMBOLS"
SIZE = "FIXED_SIZE_MISMATCH"
BRANCH = "MISSING_UNION_BRANCH"

NOTHING: Any = object()


def field(name: str, kind: Any, default: Any = NOTHING, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "type": kind,
        **({} if default is NOTHING else {"default": default}),
        **more,
    }


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def enum(*symbols: str, name: str = "E", **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": list(symbols), **more}


def fixed(size: int, name: str = "F", **more: Any) -> dict[str, Any]:
    return {"type": "fixed", "name": name, "size": size, **more}


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def mapped(values: Any) -> dict[str, Any]:
    return {"type": "map", "values": values}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


A = field("a", "int")


def case(name: str, old: Any, new: Any, backward: str = "", forward: str = "") -> Case:
    return Case(name, json.dumps(old), json.dumps(new), backward, forward)


def promotions() -> list[Case]:
    """Every pair of primitives, by the table of the specification."""
    kinds = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
    reads = {
        "long": {"int"},
        "float": {"int", "long"},
        "double": {"int", "long", "float"},
        "bytes": {"string"},
        "string": {"bytes"},
    }
    return [
        case(
            f"{old} to {new}",
            old,
            new,
            "" if old == new or old in reads.get(new, ()) else TYPE,
            "" if old == new or new in reads.get(old, ()) else TYPE,
        )
        for old in kinds
        for new in kinds
    ]


FIELDS = [
    case("nothing changes", record(A), record(A)),
    case("a field with a default is added", record(A), record(A, field("b", "int", 0))),
    case("a field without a default is added", record(A), record(A, field("b", "int")), MISSING),
    case(
        "a field without a default is removed", record(A, field("b", "int")), record(A), "", MISSING
    ),
    case("a field with a default is removed", record(A, field("b", "int", 0)), record(A)),
    case("a default is added", record(A), record(field("a", "int", 1))),
    case("a default is removed", record(field("a", "int", 1)), record(A)),
    case("a default is changed", record(field("a", "int", 1)), record(field("a", "int", 2))),
    case(
        "a nullable field with null as default is added",
        record(A),
        record(A, field("b", ["null", "string"], None)),
    ),
    case(
        "a nullable field without a default is added",
        record(A),
        record(A, field("b", ["null", "string"])),
        MISSING,
    ),
    case("fields change places", record(A, field("b", "int")), record(field("b", "int"), A)),
    case("a field is renamed", record(A), record(field("b", "int")), MISSING, MISSING),
    case(
        "a field is renamed with an alias",
        record(A),
        record(field("b", "int", aliases=["a"])),
        "",
        MISSING,
    ),
    case(
        "a field is renamed with an alias and a default on the old one",
        record(field("a", "int", 0)),
        record(field("b", "int", aliases=["a"])),
    ),
    case(
        "a field is renamed with a wrong alias",
        record(A),
        record(field("b", "int", aliases=["c"])),
        MISSING,
        MISSING,
    ),
    case("a field's type is widened", record(A), record(field("a", "long")), "", TYPE),
    case("a field's type is narrowed", record(field("a", "long")), record(A), TYPE, ""),
    case("a field's type is changed", record(A), record(field("a", "boolean")), TYPE, TYPE),
    case("a doc is added", record(A), record(field("a", "int", doc="a"), doc="d")),
    case("an order is changed", record(A), record(field("a", "int", order="ignore"))),
    case("an attribute is added", record(A, x=1), record(field("a", "int", y=2))),
    case("all fields are removed", record(A), record(), "", MISSING),
    case("a field becomes nullable", record(A), record(field("a", ["null", "int"])), "", TYPE),
    case("a field is no longer nullable", record(field("a", ["null", "int"])), record(A), TYPE, ""),
    case(
        "two fields without defaults are added",
        record(),
        record(field("x", "int"), field("y", "int")),
        MISSING,
    ),
    case(
        "an enum field with an enum's default is added",
        record(A),
        record(A, field("e", enum("X", "Y", default="X"))),
        TYPE,
    ),
    case(
        "an enum field without defaults is added",
        record(A),
        record(A, field("e", enum("X", "Y"))),
        MISSING,
    ),
    case(
        "a record field with a default is added",
        record(A),
        record(A, field("r", record(A, name="S"), {"a": 1})),
    ),
    case(
        "an array field with a default is added", record(A), record(A, field("l", array("int"), []))
    ),
    case(
        "a map field with a default is added", record(A), record(A, field("m", mapped("int"), {}))
    ),
    case(
        "an array field without a default is added",
        record(A),
        record(A, field("l", array("int"))),
        MISSING,
    ),
]

NAMES = [
    case("a record is renamed", record(A), record(A, name="S"), NAME, NAME),
    case(
        "a record is renamed with an alias", record(A), record(A, name="S", aliases=["R"]), "", NAME
    ),
    case("a record gets a namespace", record(A), record(A, namespace="n")),
    case("a namespace is changed", record(A, namespace="m"), record(A, namespace="n")),
    case(
        "a record is renamed with a full alias",
        record(A, namespace="m"),
        record(A, name="S", namespace="n", aliases=["m.R"]),
        "",
        NAME,
    ),
    case(
        "an alias in the wrong namespace does not help",
        record(A, namespace="m"),
        record(A, name="S", namespace="n", aliases=["R"]),
        NAME,
        NAME,
    ),
    case("an enum is renamed", enum("X"), enum("X", name="G"), NAME, NAME),
    case(
        "an enum is renamed with an alias", enum("X"), enum("X", name="G", aliases=["E"]), "", NAME
    ),
    case("a fixed is renamed", fixed(4), fixed(4, name="G"), NAME, NAME),
    case("a fixed is renamed with an alias", fixed(4), fixed(4, name="G", aliases=["F"]), "", NAME),
    case(
        "an inner record is renamed",
        record(field("r", record(A, name="S"))),
        record(field("r", record(A, name="T"))),
        NAME,
        NAME,
    ),
    case(
        "an inner record is renamed and loses its fields",
        record(field("r", record(A, name="S"))),
        record(field("r", record(field("b", "int"), name="T"))),
        f"{NAME} {MISSING}",
        f"{NAME} {MISSING}",
    ),
]

ENUMS = [
    case("a symbol is added", enum("X"), enum("X", "Y"), "", SYMBOLS),
    case("a symbol is removed", enum("X", "Y"), enum("X"), SYMBOLS, ""),
    case("symbols change places", enum("X", "Y"), enum("Y", "X")),
    case("a symbol is renamed", enum("X"), enum("Y"), SYMBOLS, SYMBOLS),
    case("a symbol is removed, the new one has a default", enum("X", "Y"), enum("X", default="X")),
    case("a symbol is added, the old one has a default", enum("X", default="X"), enum("X", "Y")),
    case(
        "a symbol is added, the new one has a default",
        enum("X"),
        enum("X", "Y", default="X"),
        "",
        SYMBOLS,
    ),
    case("a default is added to an enum", enum("X"), enum("X", default="X")),
    case("an enum's default is removed", enum("X", default="X"), enum("X")),
    case("an enum becomes a string", enum("X"), "string", TYPE, TYPE),
    case("an enum becomes a nullable enum", enum("X"), ["null", enum("X")], "", TYPE),
    case(
        "a symbol is added inside a record",
        record(field("e", enum("X"))),
        record(field("e", enum("X", "Y"))),
        "",
        SYMBOLS,
    ),
]

FIXED = [
    case("a fixed grows", fixed(4), fixed(8), SIZE, SIZE),
    case("a fixed shrinks", fixed(8), fixed(4), SIZE, SIZE),
    case(
        "a fixed grows and is renamed",
        fixed(4),
        fixed(8, name="G"),
        f"{NAME} {SIZE}",
        f"{NAME} {SIZE}",
    ),
    case("a fixed becomes bytes", fixed(4), "bytes", TYPE, TYPE),
    case("a fixed becomes a string", fixed(4), "string", TYPE, TYPE),
]

CONTAINERS = [
    case("an array's items are widened", array("int"), array("long"), "", TYPE),
    case("an array's items are narrowed", array("long"), array("int"), TYPE, ""),
    case("an array's items are changed", array("int"), array("string"), TYPE, TYPE),
    case("an array's items become nullable", array("int"), array(["null", "int"]), "", TYPE),
    case("a map's values are widened", mapped("int"), mapped("double"), "", TYPE),
    case("a map's values are changed", mapped("int"), mapped("boolean"), TYPE, TYPE),
    case("an array becomes a map", array("int"), mapped("int"), TYPE, TYPE),
    case("an array becomes its item", array("int"), "int", TYPE, TYPE),
    case("a record becomes a map", record(A), mapped("int"), TYPE, TYPE),
    case("a record becomes an int", record(A), "int", TYPE, TYPE),
    case(
        "a field is added to the record of an array",
        array(record(A)),
        array(record(A, field("b", "int"))),
        MISSING,
    ),
    case(
        "a field with a default is added to the record of a map",
        mapped(record(A)),
        mapped(record(A, field("b", "int", 0))),
    ),
    case(
        "a field is added three levels down",
        record(field("l", array(mapped(record(A, name="S"))))),
        record(field("l", array(mapped(record(A, field("b", "int"), name="S"))))),
        MISSING,
    ),
]

UNIONS = [
    case("a branch is added", ["null", "int"], ["null", "int", "string"], "", BRANCH),
    case("a branch is removed", ["null", "int", "string"], ["null", "int"], BRANCH, ""),
    case("branches change places", ["null", "int"], ["int", "null"]),
    case("a type becomes a union with it", "int", ["null", "int"], "", TYPE),
    case("a union becomes one of its branches", ["null", "int"], "int", TYPE, ""),
    case("a union of one becomes that one", ["int"], "int"),
    case("a type becomes a union of a wider one", "int", ["null", "long"], "", TYPE),
    case("a type becomes a union without it", "string", ["null", "int"], BRANCH, TYPE),
    case("a branch is widened", ["null", "int"], ["null", "long"], "", BRANCH),
    case("a branch is narrowed", ["null", "long"], ["null", "int"], BRANCH, ""),
    case("a union of numbers becomes the widest", ["int", "long", "float"], "double", "", BRANCH),
    case("string and bytes in unions", ["null", "string"], ["null", "bytes"]),
    case("an empty union becomes a type", [], "int", "", BRANCH),
    case(
        "a record in a union gets a field with a default",
        ["null", record(A)],
        ["null", record(A, field("b", "int", 0))],
    ),
    case(
        "a record in a union gets a field without a default",
        ["null", record(A)],
        ["null", record(A, field("b", "int"))],
        BRANCH,
    ),
    case(
        "a second record is added to a union",
        [record(A)],
        [record(A), record(field("b", "int"), name="S")],
        "",
        BRANCH,
    ),
    case(
        "a symbol is added to an enum in a union",
        ["null", enum("X")],
        ["null", enum("X", "Y")],
        "",
        BRANCH,
    ),
    case("a fixed in a union grows", ["null", fixed(4)], ["null", fixed(8)], BRANCH, BRANCH),
    case(
        "an array is added to a union", ["null", "int"], ["null", "int", array("int")], "", BRANCH
    ),
    case("a union becomes another", ["null", "int"], ["boolean", "string"], BRANCH, BRANCH),
]

LINKED = record(A, field("next", ["null", "R"], None))
LINKED_MORE = record(A, field("next", ["null", "R"], None), field("b", "int", 0))
LINKED_BAD = record(A, field("next", ["null", "R"], None), field("b", "int"))

RECURSIVE = [
    case("a list stays a list", LINKED, LINKED),
    case("a list gets a field with a default", LINKED, LINKED_MORE),
    case("a list gets a field without a default", LINKED, LINKED_BAD, MISSING),
    case(
        "a tree's children become an array of another",
        record(field("c", array("R"))),
        record(field("c", array("string"))),
        TYPE,
        TYPE,
    ),
]

LOGICAL = [
    case("a logical type is added", "long", logical("long", "timestamp-millis")),
    case("a logical type is removed", logical("int", "date"), "int"),
    case(
        "a logical type is changed",
        logical("long", "timestamp-millis"),
        logical("long", "timestamp-micros"),
    ),
    case(
        "a decimal's precision is changed",
        logical("bytes", "decimal", precision=4),
        logical("bytes", "decimal", precision=9),
    ),
    case(
        "a decimal's scale is changed",
        logical("bytes", "decimal", precision=4, scale=1),
        logical("bytes", "decimal", precision=4, scale=2),
    ),
    case(
        "a date becomes a timestamp",
        logical("int", "date"),
        logical("long", "timestamp-millis"),
        "",
        TYPE,
    ),
    case("a uuid string becomes a string", logical("string", "uuid"), "string"),
    case("a time becomes a string", logical("int", "time-millis"), "string", TYPE, TYPE),
]

CASES = [
    *promotions(),
    *FIELDS,
    *NAMES,
    *ENUMS,
    *FIXED,
    *CONTAINERS,
    *UNIONS,
    *RECURSIVE,
    *LOGICAL,
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_verdicts(case: Case) -> None:
    verify(case, lambda text: read(SchemaType.AVRO, text))


def test_there_are_enough_cases_and_none_twice() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 100
