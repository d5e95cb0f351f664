"""A committer after a crash, and with a table that does not answer or changes all the time."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.landing.committer import Committer
from headrace.landing.dead_letter import DEAD_LETTER
from headrace.landing.error import LandingError, TableConflict, TableUnavailable
from headrace.landing.source import Source
from headrace.landing.table import Table
from headrace.landing.table_factory import create_table, existing_table
from headrace.model.table.table_name import TableName

pytest.importorskip("deltalake")

ROWS = pa.schema([pa.field("id", pa.int64())])
NO_ROWS = pa.RecordBatch.from_pylist([], ROWS)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    name = TableName.parse(f"delta:{tmp_path}/clicks")
    return create_table(name, {}, ROWS, Source(topic="clicks", topic_id=None), {0: 0})


def again(table: Table) -> Committer:
    """Return what a new process makes of the table."""
    found = existing_table(table.name, {})
    committer = Committer(found, {}, 0.0)
    committer.begin(found.offsets([0, 1, 2]))
    return committer


def dead(partition: int, *offsets: int) -> pa.RecordBatch:
    row = {"partition": partition, "headers": [], "reason": "bad"}
    return pa.RecordBatch.from_pylist([{**row, "offset": each} for each in offsets], DEAD_LETTER)


def crash_after_dead_letters(
    table: Table, offsets: dict[int, int], *letters: pa.RecordBatch
) -> None:
    found = existing_table(table.name, {})
    committer = Committer(found, {}, 0.0)
    committer.begin(found.offsets([0, 1, 2]))

    def refresh() -> None:
        raise TableUnavailable("the process ends here")

    found.refresh = refresh  # type: ignore[method-assign]
    for each in letters:
        committer.add(NO_ROWS, None, each)
    with pytest.raises(TableUnavailable):
        committer.commit(offsets)


def letters(table: Table) -> list[tuple[int, int]]:
    from deltalake import DeltaTable

    rows = DeltaTable(str(table.name.dead_letters.path)).to_pyarrow_table().to_pylist()
    return sorted((each["partition"], each["offset"]) for each in rows)


def test_dead_letters_of_a_new_partition_do_not_stop_the_next_run(table: Table) -> None:
    crash_after_dead_letters(table, {0: 0, 1: 2}, dead(1, 0, 1))

    committer = again(table)
    committer.add(NO_ROWS, None, dead(1, 0, 1, 2))
    committer.commit({0: 0, 1: 3})

    assert letters(table) == [(1, 0), (1, 1), (1, 2)]
    assert existing_table(table.name, {}).offsets([0, 1]) == {0: 0, 1: 3}


def test_dead_letters_of_a_partition_that_comes_later_are_left_out(table: Table) -> None:
    crash_after_dead_letters(table, {0: 1, 1: 2, 2: 4}, dead(0, 0), dead(1, 0, 1))

    committer = again(table)
    committer.add(NO_ROWS, None, dead(0, 0, 1))
    committer.commit({0: 2})
    committer.add(NO_ROWS, None, dead(1, 0, 1, 2))
    committer.commit({0: 2, 1: 3, 2: 1})

    assert letters(table) == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]


def test_dead_letters_that_are_ahead_are_not_doubled(table: Table) -> None:
    crash_after_dead_letters(table, {0: 5, 1: 1}, dead(0, 3, 4), dead(1, 0))

    committer = again(table)
    committer.add(NO_ROWS, None, dead(1, 0, 1))
    committer.commit({0: 2, 1: 2})
    committer.add(NO_ROWS, None, dead(0, 3, 4, 5))
    committer.commit({0: 6, 1: 2})

    assert letters(table) == [(0, 3), (0, 4), (0, 5), (1, 0), (1, 1)]


WIDER = pa.RecordBatch.from_pylist([{"id": 1, "n": 2}], pa.schema([*ROWS, ("n", pa.int64())]))


def test_columns_that_cannot_be_added_end_the_run(table: Table) -> None:
    def add_columns(fields: object) -> None:
        raise TableConflict("another commit came first")

    table.add_columns = add_columns  # type: ignore[method-assign]

    with pytest.raises(LandingError, match="50 times in a row"):
        Committer(table, {}, 5.0).add(WIDER, None, None)


def test_a_column_that_parquet_refuses_does_not_alter_the_table(table: Table) -> None:
    rows = pa.RecordBatch.from_pylist([{"id": 1}], pa.schema([*ROWS, ("e", pa.struct([]))]))

    with pytest.raises(LandingError, match="e: it has a record without fields"):
        Committer(table, {}, 0.0).add(rows, None, None)

    assert existing_table(table.name, {}).columns.names == ["id"]


def test_columns_are_added_when_the_table_answers_again(table: Table) -> None:
    real, failures = table.add_columns, iter([True, False])

    def add_columns(fields: Sequence[pa.Field]) -> None:
        if next(failures):
            raise TableUnavailable("no answer")
        real(fields)

    table.add_columns = add_columns  # type: ignore[method-assign]
    committer = Committer(table, {}, 5.0)
    committer.begin({0: 0})
    committer.add(WIDER, None, None)
    committer.commit({0: 1})

    assert existing_table(table.name, {}).columns.names == ["id", "n"]
    assert committer.landed.rows == 1
