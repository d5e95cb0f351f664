"""What change capture writes to PostgreSQL, without a server."""

from types import SimpleNamespace
from typing import Any

import pytest

from headrace.ingest.cdc.postgres.catalog import Catalog
from headrace.ingest.cdc.table_filter import FILTER_SETTINGS, TableFilter
from headrace.ingest.error import IngestError
from headrace.ingest.settings import Settings

ORDERS = TableFilter(
    Settings.from_texts(FILTER_SETTINGS, {"table.include.list": "public\\.orders"})
)


class Connection:
    """Answers a query with the rows of the first part that its text has."""

    def __init__(self, **answers: list[Any]) -> None:
        self.answers = answers
        self.statements: list[str] = []

    def execute(self, query: Any, _: object = None) -> Any:
        text = query if isinstance(query, str) else query.as_string(None)
        self.statements.append(text)
        found = next((rows for part, rows in self.answers.items() if part in text), [])
        return SimpleNamespace(fetchone=lambda: found[0] if found else None, fetchall=lambda: found)


@pytest.mark.parametrize("mode", ["filtered", "all_tables"])
def test_partitions_are_published_as_their_table(mode: str) -> None:
    connection: Any = Connection(relkind=[("public", "orders")])
    Catalog(connection).ensure_publication("p", mode, ORDERS)
    (made,) = [each for each in connection.statements if each.startswith("CREATE")]
    assert made.endswith("WITH (publish_via_partition_root = true)")


def test_partitions_that_the_filter_leaves_out_are_an_error() -> None:
    leaves = [("public", "orders", "public", "orders_2026")]
    connection: Any = Connection(pg_partition_root=leaves, puballtables=[(True,)])
    with pytest.raises(IngestError, match=r"leaves out public\.orders_2026: write ALTER PUB"):
        Catalog(connection).ensure_publication("p", "disabled", ORDERS)


def test_tables_that_were_added_are_returned() -> None:
    connection: Any = Connection(relkind=[("public", "orders")], puballtables=[(False,)])
    assert Catalog(connection).ensure_publication("p", "filtered", ORDERS) == ["public.orders"]
    connection = Connection(puballtables=[(False,)])
    assert Catalog(connection).ensure_publication("p", "filtered", ORDERS) == []
