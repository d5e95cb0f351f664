"""Which tables the stream has all of, and which must be read first."""

from typing import Any

import pytest

from headrace.ingest.cdc.postgres.pgoutput import Relation
from headrace.ingest.cdc.postgres.unseen_tables import UnseenTables
from headrace.ingest.cdc.table_unread import TableUnread


class FakeCatalog:
    """A catalog whose relations of before have ids up to 100."""

    def __init__(self, *, first_file: bool = True) -> None:
        self.published = True
        self.listed = True
        self.first_file = first_file

    def newest_relation(self) -> int:
        return 100

    def is_published(self, publication: str, relation: Relation) -> bool:
        return self.published

    def is_listed(self, publication: str, relation: Relation) -> bool:
        return self.listed

    def has_first_file(self, relation: int, publication: str) -> bool:
        return self.first_file


def relation(number: int, name: str = "young") -> Relation:
    return Relation(number, "public", name, "d", ())


def unseen(catalog: Any, *relations: Relation) -> UnseenTables:
    tables = UnseenTables(catalog, "p")
    for each in relations:
        tables.saw(each)
    return tables


def test_a_table_that_was_created_since_comes_with_the_stream() -> None:
    assert unseen(FakeCatalog(), relation(101)).is_streamed(relation(101))


@pytest.mark.parametrize(
    ("first_file", "seen"),
    [
        pytest.param(True, [relation(100)], id="created before"),
        pytest.param(False, [relation(101)], id="written again, or published later"),
        pytest.param(True, [relation(101, "old"), relation(101)], id="renamed"),
        pytest.param(True, [relation(101), relation(101, "x"), relation(101)], id="renamed twice"),
    ],
)
def test_a_table_that_may_have_older_rows_is_read_first(
    first_file: bool, seen: list[Relation]
) -> None:
    tables = unseen(FakeCatalog(first_file=first_file), *seen)

    with pytest.raises(TableUnread, match="young"):
        tables.is_streamed(seen[-1])


def test_a_partition_is_not_read_until_it_is_a_table_of_its_own() -> None:
    catalog = FakeCatalog()
    catalog.published = False
    tables = unseen(catalog, relation(101))
    assert not tables.is_streamed(relation(101))

    catalog.published = True
    tables.saw(relation(101))
    with pytest.raises(TableUnread):
        tables.is_streamed(relation(101))


def test_a_table_that_the_next_reading_does_not_have_is_not_waited_for() -> None:
    catalog = FakeCatalog(first_file=False)
    catalog.listed = False  # it is unlogged now, say
    tables = unseen(catalog, relation(100), relation(101))

    assert not tables.is_streamed(relation(100))
    assert not tables.is_streamed(relation(101))

    catalog.listed = catalog.first_file = True
    with pytest.raises(TableUnread):
        tables.is_streamed(relation(101))


def test_the_names_of_relations_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.ingest.cdc.postgres.unseen_tables._MOST_NAMES", 2)
    tables = unseen(FakeCatalog(), *(relation(each) for each in (101, 102, 103)))

    assert tables.is_streamed(relation(103))
    with pytest.raises(TableUnread):
        tables.is_streamed(relation(101))
