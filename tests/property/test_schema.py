"""Any text is read as a schema or refused with a sentence; what is read keeps the rules."""

import json
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.schema.compatibility import CompatibilityLevel, check
from headrace.schema.error import InvalidSchema
from headrace.schema.parse import parse
from headrace.schema.parsed import ParsedSchema
from headrace.schema.schema import SchemaText, SchemaType

LEVEL = CompatibilityLevel
NAMES = st.sampled_from(["A", "B", "a.C"])
PRIMITIVES = st.sampled_from(["null", "boolean", "int", "long", "double", "bytes", "string"])


def avro_types(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields = st.lists(
        st.fixed_dictionaries(
            {"name": st.sampled_from(["x", "y", "z"]), "type": inner},
            optional={"default": st.sampled_from([None, 0, "", [], {}, True]), "doc": st.text()},
        ),
        max_size=3,
    )
    return st.one_of(
        st.fixed_dictionaries({"type": st.just("array"), "items": inner}),
        st.fixed_dictionaries({"type": st.just("map"), "values": inner}),
        st.lists(inner, max_size=3),
        st.fixed_dictionaries({"type": st.just("record"), "name": NAMES, "fields": fields}),
        st.fixed_dictionaries(
            {
                "type": st.just("enum"),
                "name": NAMES,
                "symbols": st.lists(st.sampled_from("PQR"), max_size=3, unique=True),
            },
            optional={"default": st.sampled_from("PQ")},
        ),
        st.fixed_dictionaries(
            {"type": st.just("fixed"), "name": NAMES, "size": st.integers(-1, 4)}
        ),
    )


AVRO = st.recursive(st.one_of(PRIMITIVES, NAMES), avro_types, max_leaves=8).map(json.dumps)


def json_types(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "string", ["null", "integer"], "number"]),
            "properties": named,
            "patternProperties": named,
            "additionalProperties": inner,
            "items": st.one_of(inner, several),
            "additionalItems": inner,
            "required": st.lists(st.sampled_from(["a", "b"]), max_size=2),
            "anyOf": several,
            "oneOf": several,
            "allOf": several,
            "not": inner,
            "enum": st.lists(st.sampled_from([1, "a", None, True]), max_size=3),
            "maxLength": st.integers(-1, 3),
            "minimum": st.one_of(st.integers(-2, 2), st.floats(-2, 2)),
            "default": st.just(0),
            "$ref": st.sampled_from(["#", "#/not", "#/properties/a", "#/nowhere"]),
        },
    )


JSON = st.recursive(st.one_of(st.booleans(), st.just({})), json_types, max_leaves=8).map(json.dumps)

PROTO_FIELD = st.builds(
    "{} {} {} = {};".format,
    st.sampled_from(["", "optional", "repeated"]),
    st.sampled_from(["int32", "string", "N", "E", "M", "double", "map<string, N>", "X"]),
    st.sampled_from("abc"),
    st.integers(0, 5),
)
PROTO_BODY = st.lists(
    st.one_of(
        PROTO_FIELD,
        st.builds("oneof {} {{ int32 d = {}; }}".format, st.sampled_from("op"), st.integers(4, 7)),
        st.just("reserved 3, 9 to max;"),
        st.just("message N { string s = 1; }"),
        st.just("enum E { Z = 0; }"),
    ),
    max_size=5,
).map(" ".join)
PROTOBUF = st.builds(
    "{} message M {{ {} }} message N {{}}".format,
    st.sampled_from(['syntax = "proto3";', 'syntax = "proto2";', "package p;", ""]),
    PROTO_BODY,
)
WORDS = "message enum oneof option reserved extend service rpc returns map repeated to max syntax"
SIGNS = "{ } [ ] ( ) < > = ; , . : / - + // /* */"
TOKENS = f"{WORDS} {SIGNS} 0x1 07 1.5 M int32 proto3".split(" ")
SOUP = st.lists(st.sampled_from([*TOKENS, "\n", '"a"', "'\\x'"]), max_size=30).map(" ".join)


def read(kind: SchemaType, text: str) -> ParsedSchema | None:
    try:
        return parse(SchemaText(kind, text))
    except InvalidSchema as refused:
        assert 5 < len(str(refused)) < 500
        return None


def hold_the_rules(kind: SchemaType, texts: tuple[str, str, str]) -> None:
    schemas = [each for each in (read(kind, text) for text in texts) if each is not None]
    for schema in schemas:
        again = read(kind, schema.canonical)
        assert again is not None and again.canonical == schema.canonical
        assert check(LEVEL.FULL, schema, [schema]) == []
        assert check(LEVEL.FULL, again, [schema]) == []
        normal = read(kind, schema.normalized)
        assert normal is not None and normal.normalized == schema.normalized
        assert check(LEVEL.FULL, normal, [schema]) == []
    for new in schemas:
        backward = check(LEVEL.BACKWARD, new, schemas)
        forward = check(LEVEL.FORWARD, new, schemas)
        assert check(LEVEL.FULL, new, schemas) == backward + forward
        for plain in (LEVEL.BACKWARD, LEVEL.FORWARD, LEVEL.FULL):
            every = check(LEVEL[f"{plain}_TRANSITIVE"], new, schemas)
            assert set(check(plain, new, schemas)) <= set(every)
        assert check(LEVEL.NONE, new, schemas) == []


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.tuples(AVRO, AVRO, AVRO))
def test_avro(texts: tuple[str, str, str]) -> None:
    hold_the_rules(SchemaType.AVRO, texts)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.tuples(JSON, JSON, JSON))
def test_json_schema(texts: tuple[str, str, str]) -> None:
    hold_the_rules(SchemaType.JSON, texts)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.tuples(PROTOBUF, PROTOBUF, PROTOBUF))
def test_protobuf(texts: tuple[str, str, str]) -> None:
    hold_the_rules(SchemaType.PROTOBUF, texts)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SchemaType), st.one_of(st.text(), SOUP, AVRO, JSON))
def test_any_text_is_read_or_refused(kind: SchemaType, text: str) -> None:
    schema = read(kind, text)
    if schema is not None:
        assert read(kind, schema.canonical) is not None
