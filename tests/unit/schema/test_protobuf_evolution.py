"""Verdicts on evolutions of Protobuf schemas, by the rules that Confluent publishes for them."""

import pytest

from headrace.schema.compatibility import CompatibilityLevel
from headrace.schema.schema import SchemaType
from testkit.sample.schema_evolution import Case, objections, read, verify

KIND = "FIELD_KIND_CHANGED"
SCALAR = "FIELD_SCALAR_KIND_CHANGED"
NAMED = "FIELD_NAMED_TYPE_CHANGED"
LABEL = "FIELD_NUMERIC_LABEL_CHANGED"
GONE = "MESSAGE_REMOVED"
PACKAGE = "PACKAGE_CHANGED"
REQUIRED_ADDED = "REQUIRED_FIELD_ADDED"
REQUIRED_REMOVED = "REQUIRED_FIELD_REMOVED"
ONEOF_FIELD = "ONEOF_FIELD_REMOVED"
MOVED = "MULTIPLE_FIELDS_MOVED_TO_ONEOF"
MOVED_IN = "FIELD_MOVED_TO_EXISTING_ONEOF"

HEAD3 = 'syntax = "proto3"; '
HEAD2 = 'syntax = "proto2"; '


def case(name: str, old: str, new: str, backward: str = "", forward: str = "") -> Case:
    """A case of proto3 whose texts are the bodies of a message M."""
    return Case(
        name, f"{HEAD3}message M {{ {old} }}", f"{HEAD3}message M {{ {new} }}", backward, forward
    )


def case2(name: str, old: str, new: str, backward: str = "", forward: str = "") -> Case:
    """The same in proto2."""
    return Case(
        name, f"{HEAD2}message M {{ {old} }}", f"{HEAD2}message M {{ {new} }}", backward, forward
    )


def files(name: str, old: str, new: str, backward: str = "", forward: str = "") -> Case:
    """A case of whole proto3 files."""
    return Case(name, HEAD3 + old, HEAD3 + new, backward, forward)


def scalars() -> list[Case]:
    """Pairs of scalar types, by the groups that are read alike from the wire."""
    groups = [
        ["int32", "int64", "uint32", "uint64", "bool"],
        ["sint32", "sint64"],
        ["string", "bytes"],
        ["fixed32", "sfixed32"],
        ["fixed64", "sfixed64"],
        ["float"],
        ["double"],
    ]
    cases = [
        case(f"{group[0]} to {other}", f"{group[0]} a = 1;", f"{other} a = 1;")
        for group in groups
        for other in group[1:]
    ]
    cases += [
        case(f"{old[0]} to {new[0]}", f"{old[0]} a = 1;", f"{new[0]} a = 1;", SCALAR, SCALAR)
        for old in groups
        for new in groups
        if old is not new
    ]
    return cases


FIELDS = [
    case("nothing changes", "string a = 1;", "string a = 1;"),
    case("a field is added", "string a = 1;", "string a = 1; string b = 2;"),
    case("a field is removed", "string a = 1; string b = 2;", "string a = 1;"),
    case("a field is renamed", "string a = 1;", "string b = 1;"),
    case("a field gets another number", "string a = 1;", "string a = 2;"),
    case("a number is reused for another type", "string a = 1;", "int32 b = 1;", SCALAR, SCALAR),
    case("fields change places", "string a = 1; int32 b = 2;", "int32 b = 2; string a = 1;"),
    case(
        "two fields change numbers",
        "string a = 1; int32 b = 2;",
        "string a = 2; int32 b = 1;",
        SCALAR,
        SCALAR,
    ),
    case("a field is reserved", "string a = 1; string b = 2;", "reserved 2; string a = 1;"),
    case("an option is added", "string a = 1;", "string a = 1 [deprecated = true];"),
    case("a field becomes optional", "int32 a = 1;", "optional int32 a = 1;"),
    case("a plain number becomes a list", "int32 a = 1;", "repeated int32 a = 1;"),
    case("a plain string becomes a list", "string a = 1;", "repeated string a = 1;"),
    case(
        "an optional number becomes a list",
        "optional int32 a = 1;",
        "repeated int32 a = 1;",
        LABEL,
        LABEL,
    ),
    case("an optional string becomes a list", "optional string a = 1;", "repeated string a = 1;"),
    case("a list of numbers is widened", "repeated int32 a = 1;", "repeated int64 a = 1;"),
    case(
        "a scalar becomes a message",
        "string a = 1;",
        "N a = 1; message N {}",
        KIND,
        f"{KIND} {GONE}",
    ),
    case("a scalar becomes a map", "string a = 1;", "map<string, string> a = 1;", KIND, KIND),
    case(
        "a message becomes a map",
        "N a = 1; message N {}",
        "map<string, N> a = 1; message N {}",
        KIND,
        KIND,
    ),
    case("a map's value is widened", "map<string, int32> a = 1;", "map<string, int64> a = 1;"),
    case(
        "a map's value changes",
        "map<string, int32> a = 1;",
        "map<string, string> a = 1;",
        SCALAR,
        SCALAR,
    ),
    case(
        "a map's key changes",
        "map<string, int32> a = 1;",
        "map<int32, int32> a = 1;",
        SCALAR,
        SCALAR,
    ),
    case(
        "a map's value becomes a message",
        "map<string, int32> a = 1;",
        "map<string, N> a = 1; message N {}",
        KIND,
        f"{KIND} {GONE}",
    ),
    case("all fields are removed", "string a = 1;", ""),
    case("a comment is added", "string a = 1;", "/* text */ string a = 1; // more\n"),
]

ENUMS = [
    case("a number becomes an enum", "int32 a = 1;", "E a = 1; enum E { X = 0; }"),
    case("an enum becomes a number", "E a = 1; enum E { X = 0; }", "int32 a = 1;"),
    case("an enum becomes a string", "E a = 1; enum E { X = 0; }", "string a = 1;", SCALAR, SCALAR),
    case(
        "an enum becomes a zigzag number",
        "E a = 1; enum E { X = 0; }",
        "sint32 a = 1;",
        SCALAR,
        SCALAR,
    ),
    case(
        "an enum becomes a message",
        "E a = 1; enum E { X = 0; }",
        "E a = 1; message E {}",
        KIND,
        f"{KIND} {GONE}",
    ),
    case("a constant is added", "enum E { X = 0; }", "enum E { X = 0; Y = 1; }"),
    case("a constant is removed", "enum E { X = 0; Y = 1; }", "enum E { X = 0; }"),
    case("a constant is renamed", "enum E { X = 0; }", "enum E { Z = 0; }"),
    case("an enum is removed", "enum E { X = 0; }", ""),
    case("an enum becomes another", "E a = 1; enum E { X = 0; }", "F a = 1; enum F { X = 0; }"),
    case("an enum is moved out", "E a = 1; enum E { X = 0; }", "E a = 1;} enum E { X = 0; "),
]

MESSAGES = [
    files("a message is added", "message M {}", "message M {} message N {}", "", GONE),
    files("a message is removed", "message M {} message N {}", "message M {}", GONE, ""),
    files("a message is renamed", "message M {}", "message N {}", GONE, GONE),
    files("messages change places", "message M {} message N {}", "message N {} message M {}"),
    files("an enum is added to the file", "message M {}", "message M {} enum E { X = 0; }"),
    files("an enum is removed from the file", "message M {} enum E { X = 0; }", "message M {}"),
    files(
        "the package changes",
        "package a; message M {}",
        "package b; message M {}",
        PACKAGE,
        PACKAGE,
    ),
    files("a package is added", "message M {}", "package a; message M {}", PACKAGE, PACKAGE),
    files("an import is added", "message M {}", 'import "google/protobuf/any.proto"; message M {}'),
    files(
        "an option of the file is added", "message M {}", 'option java_package = "x"; message M {}'
    ),
    files(
        "a service is added", "message M {}", "message M {} service S { rpc A (M) returns (M); }"
    ),
    files(
        "a service is removed", "message M {} service S { rpc A (M) returns (M); }", "message M {}"
    ),
    case("an inner message is removed", "message N {}", "", GONE, ""),
    case("an inner message is renamed", "message N {}", "message O {}", GONE, GONE),
    case(
        "an inner message changes",
        "N a = 1; message N { string x = 1; }",
        "N a = 1; message N { int32 x = 1; }",
        SCALAR,
        SCALAR,
    ),
    case(
        "an inner message gets a field",
        "N a = 1; message N {}",
        "N a = 1; message N { int32 x = 1; }",
    ),
    case(
        "a field gets another message",
        "N a = 1; message N {} message O {}",
        "O a = 1; message N {} message O {}",
        NAMED,
        NAMED,
    ),
    case(
        "a message becomes a scalar",
        "N a = 1; message N {}",
        "string a = 1; message N {}",
        KIND,
        KIND,
    ),
    case(
        "a message becomes a list of it", "N a = 1; message N {}", "repeated N a = 1; message N {}"
    ),
    files(
        "an inner message is moved out",
        "message M { N a = 1; message N {} }",
        "message M { N a = 1; } message N {}",
        f"{GONE} {NAMED}",
        f"{GONE} {NAMED}",
    ),
    files(
        "a name is written in full",
        "package p; message M { N a = 1; } message N {}",
        "package p; message M { .p.N a = 1; } message N {}",
    ),
    files(
        "a recursive message stays",
        "message M { M next = 1; }",
        "message M { M next = 1; string a = 2; }",
    ),
    files(
        "a recursive message changes",
        "message M { M next = 1; int32 a = 2; }",
        "message M { M next = 1; string a = 2; }",
        SCALAR,
        SCALAR,
    ),
    files(
        "a well-known type changes",
        'import "google/protobuf/timestamp.proto"; message M { google.protobuf.Timestamp a = 1; }',
        'import "google/protobuf/duration.proto"; message M { google.protobuf.Duration a = 1; }',
        NAMED,
        NAMED,
    ),
    files(
        "a number is wrapped",
        "message M { int32 a = 1; }",
        'import "google/protobuf/wrappers.proto"; message M { google.protobuf.Int32Value a = 1; }',
        KIND,
        KIND,
    ),
    files(
        "a change three levels down",
        "message A { message B { message C { int32 x = 1; } } }",
        "message A { message B { message C { float x = 1; } } }",
        SCALAR,
        SCALAR,
    ),
]

ONEOFS = [
    case("a oneof is added", "string a = 1;", "string a = 1; oneof o { string b = 2; }"),
    case("a oneof is removed with its fields", "oneof o { string a = 1; }", ""),
    case(
        "a oneof gets a field",
        "oneof o { string a = 1; }",
        "oneof o { string a = 1; string b = 2; }",
        "",
        ONEOF_FIELD,
    ),
    case(
        "a oneof loses a field",
        "oneof o { string a = 1; string b = 2; }",
        "oneof o { string a = 1; }",
        ONEOF_FIELD,
        "",
    ),
    case("a field moves into a new oneof", "string a = 1;", "oneof o { string a = 1; }"),
    case(
        "a field moves into a new oneof with others",
        "string a = 1;",
        "oneof o { string a = 1; string b = 2; }",
    ),
    case(
        "two fields move into a oneof",
        "string a = 1; string b = 2;",
        "oneof o { string a = 1; string b = 2; }",
        MOVED,
        "",
    ),
    case(
        "a field moves into a oneof that was there",
        "string a = 1; oneof o { string b = 2; }",
        "oneof o { string a = 1; string b = 2; }",
        MOVED_IN,
        "",
    ),
    case(
        "a field moves out of a oneof",
        "oneof o { string a = 1; string b = 2; }",
        "string a = 1; oneof o { string b = 2; }",
        "",
        MOVED_IN,
    ),
    case(
        "a oneof is dissolved",
        "oneof o { string a = 1; string b = 2; }",
        "string a = 1; string b = 2;",
        "",
        MOVED,
    ),
    case("a oneof is renamed", "oneof o { string a = 1; }", "oneof p { string a = 1; }"),
    case(
        "a oneof is renamed and a type changes",
        "oneof o { string a = 1; }",
        "oneof p { int32 a = 1; }",
        SCALAR,
        SCALAR,
    ),
    case(
        "a type in a oneof changes",
        "oneof o { string a = 1; }",
        "oneof o { int32 a = 1; }",
        SCALAR,
        SCALAR,
    ),
    case("a type in a oneof is widened", "oneof o { int32 a = 1; }", "oneof o { int64 a = 1; }"),
    case("a field in a oneof is renamed", "oneof o { string a = 1; }", "oneof o { string b = 1; }"),
    case(
        "a field moves into a oneof and changes",
        "string a = 1;",
        "oneof o { int32 a = 1; }",
        SCALAR,
        SCALAR,
    ),
    case(
        "a scalar in a oneof becomes a message",
        "oneof o { string a = 1; } message N {}",
        "oneof o { N a = 1; } message N {}",
        KIND,
        KIND,
    ),
]

PROTO2 = [
    case2(
        "a required field is added",
        "optional int32 a = 1;",
        "optional int32 a = 1; required int32 b = 2;",
        REQUIRED_ADDED,
        REQUIRED_REMOVED,
    ),
    case2(
        "a required field is removed",
        "optional int32 a = 1; required int32 b = 2;",
        "optional int32 a = 1;",
        REQUIRED_REMOVED,
        REQUIRED_ADDED,
    ),
    case2(
        "an optional field is added",
        "optional int32 a = 1;",
        "optional int32 a = 1; optional int32 b = 2;",
    ),
    case2(
        "a number becomes required", "optional int32 a = 1;", "required int32 a = 1;", LABEL, LABEL
    ),
    case2("a string becomes required", "optional string a = 1;", "required string a = 1;"),
    case2(
        "a number becomes a list", "optional int32 a = 1;", "repeated int32 a = 1;", LABEL, LABEL
    ),
    case2("a string becomes a list", "optional string a = 1;", "repeated string a = 1;"),
    case2(
        "an enum becomes a list",
        "optional E a = 1; enum E { X = 1; }",
        "repeated E a = 1; enum E { X = 1; }",
        LABEL,
        LABEL,
    ),
    case2(
        "a default changes",
        "optional int32 a = 1 [default = 1];",
        "optional int32 a = 1 [default = 2];",
    ),
    case2(
        "a group changes",
        "optional group G = 1 { optional int32 x = 1; }",
        "optional group G = 1 { optional string x = 1; }",
        SCALAR,
        SCALAR,
    ),
    case2(
        "a group gets a field",
        "optional group G = 1 {}",
        "optional group G = 1 { optional int32 x = 1; }",
    ),
    case2(
        "extensions are declared",
        "optional int32 a = 1;",
        "optional int32 a = 1; extensions 100 to max;",
    ),
    Case(
        "proto2 to proto3",
        HEAD2 + "message M { optional int32 a = 1; }",
        HEAD3 + "message M { int32 a = 1; }",
    ),
    Case(
        "proto3 to an edition",
        HEAD3 + "message M { int32 a = 1; }",
        'edition = "2023"; message M { int32 a = 1; }',
    ),
]

CASES = [*scalars(), *FIELDS, *ENUMS, *MESSAGES, *ONEOFS, *PROTO2]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_verdicts(case: Case) -> None:
    verify(case, lambda text: read(SchemaType.PROTOBUF, text))


def test_there_are_enough_cases_and_none_twice() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 100


IMPORTING = HEAD3 + 'package a; import "b.proto"; message M { b.N n = 1; }'


def imported(body: str) -> str:
    return f"{HEAD3} package b; message N {{ {body} }}"


def test_a_change_in_an_imported_message_is_a_change() -> None:
    old = read(SchemaType.PROTOBUF, IMPORTING, {"b.proto": imported("string x = 1;")})
    new = read(SchemaType.PROTOBUF, IMPORTING, {"b.proto": imported("int32 x = 1;")})
    assert objections(CompatibilityLevel.BACKWARD, new, old) == {SCALAR, NAMED}


def test_an_imported_message_may_get_fields() -> None:
    old = read(SchemaType.PROTOBUF, IMPORTING, {"b.proto": imported("string x = 1;")})
    new = read(SchemaType.PROTOBUF, IMPORTING, {"b.proto": imported("string x = 1; int32 y = 2;")})
    assert not objections(CompatibilityLevel.FULL, new, old)


def test_imports_of_imports_are_found() -> None:
    resolved = {
        "b.proto": HEAD3 + 'package b; import public "c.proto"; message N { c.O o = 1; }',
        "c.proto": HEAD3 + "package c; message O {}",
    }
    assert read(SchemaType.PROTOBUF, IMPORTING, resolved).name == "a.M"
