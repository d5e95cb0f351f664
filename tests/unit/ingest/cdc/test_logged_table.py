"""Tables as the binary log describes them."""

from types import SimpleNamespace
from typing import Any

from headrace.ingest.cdc.mysql.column_type import MysqlColumn
from headrace.ingest.cdc.mysql.connection import TableShape
from headrace.ingest.cdc.mysql.logged_table import completed, logged_shape


def logged(key: Any, **codes: int) -> TableShape:
    columns = [SimpleNamespace(name=name, type=code) for name, code in codes.items()]
    event = SimpleNamespace(schema="shop", table="t", primary_key=key, columns=columns)
    return logged_shape(event)


def kinds(shape: TableShape) -> dict[str, str]:
    return {each.name: each.kind for each in shape.columns}


def test_a_table_that_is_gone_is_that_of_the_log() -> None:
    gone = TableShape("shop", "t", (), ())
    for key in ("id", ("id",), ["id"]):
        found = completed(gone, logged(key, id=8, note=252, at=18))
        assert found.key == ("id",)
        assert kinds(found) == {"id": "bigint", "note": "text", "at": "datetime"}
        assert found.ordered


def test_the_catalog_comes_first_where_it_has_the_column() -> None:
    columns = (MysqlColumn("id", "int", "int", nullable=False),)
    found = completed(TableShape("shop", "t", columns, ("id",)), logged("id", id=8, old=15))
    assert kinds(found) == {"id": "int", "old": "varchar"}
    assert found.columns[0] == columns[0]


def test_a_key_of_columns_that_the_event_lacks_is_that_of_the_log() -> None:
    columns = (MysqlColumn("number", "int", "int", nullable=False),)
    found = completed(TableShape("shop", "t", columns, ("number",)), logged("id", id=3))
    assert found.key == ("id",)


def test_types_have_what_their_json_depends_on() -> None:
    columns = [
        SimpleNamespace(name="u", type=3, unsigned=True),
        SimpleNamespace(name="n", type=246, precision=8, decimals=2),
        SimpleNamespace(name="b", type=16, bits=9),
        SimpleNamespace(name="f", type=254, max_length=3, character_set_name="binary"),
        SimpleNamespace(name="e", type=247, enum_values=["x", "it's"]),
        SimpleNamespace(name="none", type=255),
    ]
    event = SimpleNamespace(schema="shop", table="t", primary_key="", columns=columns)
    shape = logged_shape(event)
    assert shape.key == ()
    full = {each.name: each.full for each in shape.columns}
    assert full == {
        "u": "int unsigned",
        "n": "decimal",
        "b": "bit",
        "f": "binary(3)",
        "e": "enum('x','it''s')",
        "none": "",
    }
    assert [each.precision for each in shape.columns] == [None, 8, 9, None, None, None]
