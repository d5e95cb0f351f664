"""Levels: which earlier schemas are looked at, and in which direction."""

import pytest

from headrace.schema.compatibility import CompatibilityLevel, check
from headrace.schema.schema import SchemaType
from testkit.sample.schema_evolution import read

LEVEL = CompatibilityLevel


def record(*fields: str) -> str:
    return f'{{"type": "record", "name": "R", "fields": [{", ".join(fields)}]}}'


A = '{"name": "a", "type": "int"}'
B = '{"name": "b", "type": "int", "default": 0}'
C = '{"name": "c", "type": "int"}'

FIRST, SECOND, THIRD = (
    read(SchemaType.AVRO, text) for text in (record(A), record(A, B), record(A, C))
)


@pytest.mark.parametrize(
    "level, versions",
    [
        (LEVEL.NONE, []),
        (LEVEL.BACKWARD, [1]),
        (LEVEL.BACKWARD_TRANSITIVE, [1, 0]),
        (LEVEL.FORWARD, []),
        (LEVEL.FORWARD_TRANSITIVE, []),
        (LEVEL.FULL, [1]),
        (LEVEL.FULL_TRANSITIVE, [1, 0]),
    ],
)
def test_a_transitive_level_looks_at_every_version(level: LEVEL, versions: list[int]) -> None:
    assert [each.earlier for each in check(level, THIRD, [FIRST, SECOND])] == versions


@pytest.mark.parametrize("level", LEVEL)
def test_a_first_schema_is_compatible(level: LEVEL) -> None:
    assert check(level, FIRST, []) == []


def test_messages_name_both_schemas_by_their_age() -> None:
    backward = check(LEVEL.BACKWARD, THIRD, [FIRST])[0]
    forward = check(LEVEL.FORWARD, FIRST, [THIRD])[0]
    assert "'c' of the new schema" in backward.message
    assert "'c' of the earlier schema" in forward.message
    assert backward.path == "/fields/1"


def test_another_type_of_schema_is_incompatible() -> None:
    proto = read(SchemaType.PROTOBUF, "message M {}")
    assert [each.type for each in check(LEVEL.BACKWARD, proto, [FIRST])] == ["SCHEMA_TYPE_CHANGED"]
    assert check(LEVEL.NONE, proto, [FIRST]) == []
