"""Tables of both kinds: rows and offsets are one commit, and a second process is refused."""

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.landing.committer import Committer
from headrace.landing.error import AnotherLanding, LandingError, TableConflict, TableUnavailable
from headrace.landing.source import Source
from headrace.landing.table import Table
from headrace.landing.table_factory import create_table, existing_table, open_table
from headrace.model.error import ConfigError
from headrace.model.table.table_name import TableKind, TableName

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

ROWS = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string())])
SOURCE = Source(topic="clicks", topic_id=None)
UPSERT = Source(topic="clicks", topic_id=None, values="json", keys=("id",))
Lake = Callable[[str], tuple[TableName, dict[str, str]]]


@pytest.fixture(params=[*TableKind])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """Name a table of either kind in a folder of its own."""
    catalog = {
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }

    def name(table: str) -> tuple[TableName, dict[str, str]]:
        if request.param is TableKind.DELTA:
            return TableName.parse(f"delta:{tmp_path}/{table}"), {}
        return TableName.parse(f"iceberg:lake.shop.{table}"), catalog

    return name


def made(lake: Lake, source: Source = SOURCE, columns: pa.Schema = ROWS) -> Table:
    name, catalog = lake("clicks")
    return create_table(name, catalog, columns, source, {0: 0, 1: 5})


def again(lake: Lake) -> Table:
    return existing_table(*lake("clicks"))


def batch(*rows: tuple[int, str]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"id": each, "name": name} for each, name in rows], ROWS)


def content(table: Table) -> list[tuple[Any, ...]]:
    """Read a table with the library of its kind, not with ours."""
    found: Any = table
    found.refresh()
    inner = found._table
    rows = (
        inner.to_pyarrow_table() if table.name.kind is TableKind.DELTA else inner.scan().to_arrow()
    )
    names = [each for each in table.columns.names if not each.startswith("_")]
    return sorted(tuple(each.values()) for each in rows.select(names).to_pylist())


def landing(table: Table, offsets: dict[int, int], seconds: float = 5.0) -> Committer:
    committer = Committer(table, {}, seconds)
    committer.begin(offsets)
    return committer


def test_a_new_table_starts_at_the_given_offsets(lake: Lake) -> None:
    made(lake)

    assert again(lake).offsets([0, 1, 2]) == {0: 0, 1: 5}
    assert again(lake).source == SOURCE
    assert again(lake).columns.names == ["id", "name"]


def test_there_is_no_table_before_it_is_made(lake: Lake) -> None:
    assert open_table(*lake("clicks")) is None
    with pytest.raises(LandingError, match="there is no table"):
        again(lake)


def test_rows_and_offsets_are_one_commit(lake: Lake) -> None:
    table = made(lake)
    committer = landing(table, {0: 0, 1: 5})
    committer.add(batch((1, "a"), (2, "b")), None, None)
    committer.commit({0: 2, 1: 5})
    committer.add(batch((3, "c")), None, None)
    committer.commit({0: 3, 1: 5, 2: 1})

    assert content(again(lake)) == [(1, "a"), (2, "b"), (3, "c")]
    assert again(lake).offsets([0, 1, 2]) == {0: 3, 1: 5, 2: 1}
    assert (committer.landed.rows, committer.landed.commits) == (3, 2)


def test_a_second_process_adds_nothing(lake: Lake) -> None:
    first, second = landing(made(lake), {0: 0, 1: 5}), landing(again(lake), {0: 0, 1: 5})
    for each in (first, second):
        each.add(batch((1, "a")), None, None)
    first.commit({0: 1, 1: 5})

    with pytest.raises(AnotherLanding, match="another process lands clicks"):
        second.commit({0: 1, 1: 5})

    assert content(again(lake)) == [(1, "a")]


def test_a_commit_against_an_old_state_conflicts(lake: Lake) -> None:
    table, old = made(lake), again(lake)
    table.append([], {0: 1, 1: 5})

    with pytest.raises(TableConflict):
        old.append([], {0: 2, 1: 5})

    assert again(lake).offsets([0, 1]) == {0: 1, 1: 5}


def test_a_commit_whose_answer_was_lost_is_not_repeated(lake: Lake) -> None:
    table = made(lake)
    real = table.append
    answers = iter([True, False])

    def append(files: Any, offsets: Any) -> None:
        real(files, offsets)
        if next(answers):
            raise TableUnavailable("no answer")

    table.append = append  # type: ignore[method-assign]
    committer = landing(table, {0: 0, 1: 5})
    committer.add(batch((1, "a")), None, None)
    committer.commit({0: 1, 1: 5})

    assert content(again(lake)) == [(1, "a")]
    assert next(answers) is False


def test_a_commit_that_did_not_happen_is_repeated(lake: Lake) -> None:
    table = made(lake)
    real = table.append
    failures = iter([True, True, False])

    def append(files: Any, offsets: Any) -> None:
        if next(failures):
            raise TableUnavailable("no catalog")
        real(files, offsets)

    table.append = append  # type: ignore[method-assign]
    committer = landing(table, {0: 0, 1: 5})
    committer.add(batch((1, "a")), None, None)
    committer.commit({0: 1, 1: 5})

    assert content(again(lake)) == [(1, "a")]


def test_a_table_that_does_not_answer_ends_the_landing_in_time(lake: Lake) -> None:
    table = made(lake)

    def append(files: Any, offsets: Any) -> None:
        raise TableUnavailable("no catalog")

    table.append = append  # type: ignore[method-assign]
    committer = landing(table, {0: 0, 1: 5}, seconds=0.05)

    with pytest.raises(TableUnavailable, match="no catalog"):
        committer.commit({0: 1, 1: 5})


def test_new_columns_are_null_in_old_rows(lake: Lake) -> None:
    committer = landing(made(lake), {0: 0, 1: 5})
    committer.add(batch((1, "a")), None, None)
    wider = pa.schema([*ROWS, pa.field("age", pa.int32())])
    committer.add(pa.RecordBatch.from_pylist([{"id": 2, "name": "b", "age": 7}], wider), None, None)
    committer.commit({0: 2, 1: 5})

    assert content(again(lake)) == [(1, "a", None), (2, "b", 7)]


def test_upserts_replace_and_remove_rows(lake: Lake) -> None:
    committer = landing(made(lake, UPSERT), {0: 0, 1: 5})
    committer.add(batch((1, "a"), (2, "b"), (1, "a2")), None, None)
    committer.commit({0: 3, 1: 5})
    gone = pa.array([True, False, False])
    committer.add(batch((2, "b"), (3, "c"), (1, "a3")), gone, None)
    committer.commit({0: 6, 1: 5})

    assert content(again(lake)) == [(1, "a3"), (3, "c")]
    assert again(lake).offsets([0, 1]) == {0: 6, 1: 5}


@pytest.mark.parametrize("name", ["__deleted", "__row", "row", "key 0", "a`b", "a.b"])
def test_an_upsert_takes_columns_of_any_name(lake: Lake, name: str) -> None:
    columns = pa.schema([("id", pa.int64()), (name, pa.string())])
    source = Source(topic="clicks", topic_id=None, values="json", keys=("id", name))
    committer = landing(made(lake, source, columns), {0: 0, 1: 5})
    rows = [{"id": 1, name: "a"}, {"id": 2, name: "b"}]
    committer.add(pa.RecordBatch.from_pylist(rows, columns), None, None)
    committer.commit({0: 2, 1: 5})
    committer.add(pa.RecordBatch.from_pylist(rows, columns), pa.array([True, False]), None)
    committer.commit({0: 4, 1: 5})

    assert again(lake).rows() == 1
    assert again(lake).columns.names == ["id", name]


def test_an_upsert_that_changes_nothing_moves_the_offsets(lake: Lake) -> None:
    committer = landing(made(lake, UPSERT), {0: 0, 1: 5})
    committer.add(batch((9, "x")), pa.array([True]), None)
    committer.commit({0: 1, 1: 5})
    committer.add(batch((8, "x")), None, None)
    committer.commit({0: 2, 1: 5})

    assert content(again(lake)) == [(8, "x")]
    assert again(lake).offsets([0, 1]) == {0: 2, 1: 5}


def test_compaction_leaves_rows_and_offsets(lake: Lake) -> None:
    table = made(lake)
    committer = landing(table, {0: 0, 1: 5})
    for number in range(4):
        committer.add(batch((number, "x")), None, None)
        committer.commit({0: number + 1, 1: 5})

    assert again(lake).compact(target_bytes=1 << 20) == (4, 1)
    committer.add(batch((4, "x")), None, None)
    committer.commit({0: 5, 1: 5})

    assert content(again(lake)) == [(number, "x") for number in range(5)]
    assert again(lake).offsets([0, 1]) == {0: 5, 1: 5}
    assert again(lake).status(small_bytes=1 << 20).files == 2


def test_offsets_outlive_the_snapshots_that_brought_them(lake: Lake) -> None:
    table = made(lake)
    committer = landing(table, {0: 0, 1: 5})
    for number in range(3):
        committer.add(batch((number, "x")), None, None)
        committer.commit({0: number + 1, 1: 5})
    again(lake).compact(target_bytes=1 << 20)

    _, removed = again(lake).expire(older_than_ms=int(time.time() * 1000))

    assert removed >= 3
    assert again(lake).offsets([0, 1]) == {0: 3, 1: 5}
    assert content(again(lake)) == [(0, "x"), (1, "x"), (2, "x")]


def test_a_table_that_was_rolled_back_continues_where_it_was(tmp_path: Path) -> None:
    name = TableName.parse("iceberg:lake.shop.clicks")
    catalog = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    table = create_table(name, catalog, ROWS, SOURCE, {0: 0})
    committer = landing(table, {0: 0})
    committer.add(batch((1, "a")), None, None)
    committer.commit({0: 1})
    inner: Any = existing_table(name, catalog)
    state = inner._table.current_snapshot().snapshot_id
    committer.add(batch((2, "b")), None, None)
    committer.commit({0: 2})

    inner.refresh()
    inner._table.manage_snapshots().rollback_to_snapshot(state).commit()

    assert existing_table(name, catalog).offsets([0]) == {0: 1}


def test_statistics_that_the_table_names_are_no_strays(tmp_path: Path) -> None:
    from pyiceberg.table.statistics import PartitionStatisticsFile, StatisticsFile

    name = TableName.parse("iceberg:lake.shop.clicks")
    catalog = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/w"}
    table: Any = create_table(name, catalog, ROWS, SOURCE, {0: 0})
    table.append([], {0: 1})
    inner = table._table
    folder = Path(inner.location().removeprefix("file://")) / "metadata"
    named, parts, stray = (folder / each for each in ("named.puffin", "parts", "stray.puffin"))
    for each in (named, parts, stray):
        each.write_bytes(b"")
    snapshot = inner.current_snapshot().snapshot_id
    file: dict[str, Any] = {"snapshot-id": snapshot, "file-size-in-bytes": 0}
    whole = {**file, "file-footer-size-in-bytes": 0, "blob-metadata": []}
    inner.metadata = inner.metadata.model_copy(
        update={
            "statistics": [StatisticsFile(**{**whole, "statistics-path": f"file://{named}"})],
            "partition_statistics": [
                PartitionStatisticsFile(**{**file, "statistics-path": f"file://{parts}"})
            ],
        }
    )

    table._maintenance()._remove_strays(datetime.now(UTC) + timedelta(minutes=1))

    assert (named.exists(), parts.exists(), stray.exists()) == (True, True, False)


def test_a_catalog_that_is_not_known_does_not_show_its_password() -> None:
    with pytest.raises(ConfigError, match="--catalog type=") as error:
        open_table(TableName.parse("iceberg:x.shop.t"), {"uri": "mysql://user:secret@host/db"})

    assert "secret" not in str(error.value)
    assert error.value.__suppress_context__


def test_a_foreign_table_is_refused(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    write_deltalake(tmp_path / "other", pa.table({"id": [1]}))

    with pytest.raises(LandingError, match="not made by headrace land"):
        open_table(TableName.parse(f"delta:{tmp_path}/other"), {})


def test_delta_keeps_offsets_beside_the_rows_for_people_too(tmp_path: Path) -> None:
    name = TableName.parse(f"delta:{tmp_path}/clicks")
    table: Any = create_table(name, {}, ROWS, SOURCE, {0: 0})
    committer = landing(table, {0: 0})
    committer.add(batch((1, "a")), None, None)
    committer.commit({0: 1})

    assert json.loads(table._table.history(1)[0]["headrace.offsets"]) == {"0": 1}


def test_offsets_that_delta_cannot_read_are_a_table_that_is_unavailable(tmp_path: Path) -> None:
    from deltalake.exceptions import DeltaError

    class Broken:
        def transaction_version(self, application: str) -> int:
            raise DeltaError("the log cannot be read")

    table: Any = create_table(TableName.parse(f"delta:{tmp_path}/t"), {}, ROWS, SOURCE, {0: 0})
    table._table = Broken()
    with pytest.raises(TableUnavailable, match="the log cannot be read"):
        table.offsets([0])


def test_a_namespace_that_another_landing_makes_meanwhile_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.catalog.sql import SqlCatalog
    from sqlalchemy.exc import IntegrityError

    def race(catalog: Any, namespace: str) -> None:
        catalog.create_namespace(namespace)
        raise IntegrityError("INSERT", {}, Exception("UNIQUE constraint failed"))

    monkeypatch.setattr(SqlCatalog, "create_namespace_if_not_exists", race)
    catalog = {"uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"file://{tmp_path}/files"}
    name = TableName.parse("iceberg:lake.shop.clicks")

    assert create_table(name, catalog, ROWS, SOURCE, {0: 0}).offsets([0]) == {0: 0}


def test_rows_are_counted_as_commits_say(lake: Lake) -> None:
    table = made(lake, UPSERT)
    assert table.rows() == 0
    committer = landing(table, {0: 0, 1: 5})
    for number in range(3):
        committer.add(batch((1, "a"), (number + 2, "b")), None, None)
        committer.commit({0: number + 1})
    assert table.rows() == 4
    assert again(lake).rows() == 4
    committer.add(batch((1, "a"), (2, "b")), pa.array([True, False]), None)
    committer.commit({0: 4})
    table.compact(target_bytes=1_000_000)

    assert again(lake).rows() == len(content(table)) == 3
