"""Defaults of columns, as far as a schema can hold them."""

import pytest

from headrace.ingest.cdc.postgres.column_default import _STAND_INS, default_text
from headrace.ingest.cdc.postgres.column_type import ColumnTypes, PostgresType


@pytest.mark.parametrize(
    ("expression", "kind", "text"),
    [
        ("3", "int4", "3"),
        ("'-3'::integer", "int4", "-3"),
        ("(-1.5)", "numeric", "-1.5"),
        ("true", "bool", "true"),
        ("'it''s'::character varying(9)", "varchar", "it's"),
        ("'{}'::text[]", "_text", "{}"),
        ("now()", "timestamptz", "1970-01-01 00:00:00+00"),
        ("nextval('s'::regclass)", "int8", "0"),
        ("lower('ABC'::text)", "text", ""),
        ("now()", "inet", None),
        ("(2 + 3)", "int4", None),
        ("CURRENT_USER", "text", "CURRENT_USER"),
        ("CURRENT_USER", "name", None),
        ("('a'::text || 'b'::text)", "text", "a"),
        ("CURRENT_TIMESTAMP", "timestamptz", "1970-01-01 00:00:00+00"),
        ("LOCALTIMESTAMP(3)", "timestamp", "1970-01-01 00:00:00"),
        ("CURRENT_DATE", "date", "1970-01-01"),
        ("CURRENT_TIME", "timetz", None),
        ("(1 = 1)", "bool", "f"),
        (None, "int4", None),
    ],
)
def test_constants_and_functions_have_a_text(
    expression: str | None, kind: str, text: str | None
) -> None:
    assert default_text(expression, kind) == text


@pytest.mark.parametrize("kind", [*_STAND_INS])
def test_a_value_that_stands_for_one_of_a_function_is_one_of_the_type(kind: str) -> None:
    types = ColumnTypes(lambda _: PostgresType(kind))
    assert types.find(1, -1).to_json(_STAND_INS[kind].encode())
