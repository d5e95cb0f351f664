"""The keys of PostgreSQL's tables."""

import pytest

from headrace.ingest.cdc.postgres.captured_table import ColumnDefault, TableFactory, TableFacts
from headrace.ingest.cdc.postgres.column_type import ColumnTypes, PostgresType
from headrace.ingest.cdc.postgres.pgoutput import Relation, RelationColumn


@pytest.mark.parametrize(
    ("identity", "identified", "catalog", "expected"),
    [
        ("d", {"id"}, ("id",), ["id"]),
        ("d", {"id", "code"}, ("code", "id"), ["code", "id"]),
        ("i", {"code"}, ("id",), ["code"]),  # an index that is not the primary key
        ("d", {"id"}, ("number",), ["id"]),  # renamed since
        ("d", {"id"}, (), ["id"]),  # gone
        ("f", {"id", "code"}, ("id",), ["id"]),
    ],
)
def test_the_key_has_columns_that_every_change_has(
    identity: str, identified: set[str], catalog: tuple[str, ...], expected: list[str]
) -> None:
    types = ColumnTypes(lambda _: PostgresType("int4"))
    facts = TableFacts(catalog, frozenset(), ("int4",) * len(catalog))
    columns = tuple(RelationColumn(each in identified, each, 23, -1) for each in ("id", "code"))
    captured = TableFactory("shop", types, lambda *_: facts).make(
        Relation(1, "public", "t", identity, columns)
    )
    table = captured.table
    assert [table.columns[at].name for at in table.key] == expected
    assert len(captured.key_types) == (len(catalog) if expected == list(catalog) else 0)


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        ("int4", "3", "3"),
        ("bool", "true", "true"),
        ("text", "a", '"a"'),
        ("int4", "a", None),  # the column had another type when the row was changed
        ("float8", "", None),
        ("numeric", "a", None),
        ("date", "a", None),
        ("numeric", "NaN", None),  # no JSON value stands for it
        ("numeric", "1e999999999", None),
        ("numeric", "1e-999999999", None),
        ("numeric", "1e3", None),  # a struct, of which Connect has no defaults
    ],
)
def test_a_default_that_does_not_fit_its_type_is_left_out(
    kind: str, default: str, expected: str | None
) -> None:
    types = ColumnTypes(lambda _: PostgresType(kind))
    facts = TableFacts(required=frozenset({"c"}), defaults=(ColumnDefault("c", default, 1, -1),))
    columns = (RelationColumn(False, "c", 1, -1),)
    captured = TableFactory("shop", types, lambda *_: facts).make(
        Relation(1, "public", "t", "f", columns)
    )
    assert captured.table.columns[0].default == expected


@pytest.mark.parametrize(
    ("type_id", "modifier", "expected"), [(1, 4, "3"), (2, 4, None), (1, -1, None)]
)
def test_a_default_of_another_type_is_left_out(
    type_id: int, modifier: int, expected: str | None
) -> None:
    types = ColumnTypes(lambda _: PostgresType("int4"))
    default = ColumnDefault("c", "3", type_id, modifier)
    facts = TableFacts(required=frozenset({"c"}), defaults=(default,))
    relation = Relation(1, "public", "t", "f", (RelationColumn(False, "c", 1, 4),))
    captured = TableFactory("shop", types, lambda *_: facts).make(relation)
    assert captured.table.columns[0].default == expected
