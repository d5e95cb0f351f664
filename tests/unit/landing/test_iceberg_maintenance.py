"""Compaction and expiry of an Iceberg table, beside other commits and other tables."""

import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from headrace.landing.committer import Committer
from headrace.landing.error import LandingError
from headrace.landing.iceberg_maintenance import OFFSETS, IcebergMaintenance
from headrace.landing.source import Source
from headrace.landing.table_factory import create_table, existing_table
from headrace.model.table.table_name import TableName

pytest.importorskip("pyiceberg")

ROWS = pa.schema([pa.field("id", pa.int64())])
CLICKS = TableName.parse("iceberg:lake.shop.clicks")
SOURCE = Source(topic="clicks", topic_id=None)
UPSERT = Source(topic="clicks", topic_id=None, values="json", keys=("id",))


class Lake:
    """A catalog with a table of clicks, whose ids are the offsets of their records."""

    def __init__(self, folder: Path) -> None:
        self.catalog = {"uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/w"}

    def make(self, source: Source = SOURCE) -> None:
        create_table(CLICKS, self.catalog, ROWS, source, {0: 0})

    @property
    def table(self) -> Any:
        return existing_table(CLICKS, self.catalog)

    def land(self, first: int, past: int, deleted: pa.BooleanArray | None = None) -> None:
        table = self.table
        committer = Committer(table, self.catalog, 0.0)
        committer.begin(table.offsets([0]))
        committer.add(pa.record_batch([pa.array(range(first, past))], ROWS), deleted, None)
        committer.commit({0: past})

    def ids(self) -> list[int]:
        return sorted(self.table._table.scan().to_arrow().column("id").to_pylist())

    def roll_back(self, snapshot: int) -> None:
        self.table._table.manage_snapshots().rollback_to_snapshot(snapshot).commit()

    @property
    def head(self) -> Any:
        return self.table._table.current_snapshot()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path)


def after_now() -> int:
    """Return a time that all snapshots so far are older than, and none of the later ones."""
    now = int(time.time() * 1000) + 1
    while time.time() * 1000 <= now:
        pass
    return now


def before_commit(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> list[None]:
    """Do something once, between what a compaction read and its commit."""
    real, done = IcebergMaintenance._commit, list[None]()

    def commit(maintenance: Any, *arguments: Any) -> None:
        if not done:
            done.append(act())
        real(maintenance, *arguments)

    monkeypatch.setattr(IcebergMaintenance, "_commit", commit)
    return done


def test_a_table_that_is_rolled_back_to_a_compaction_continues_at_its_offsets(lake: Lake) -> None:
    lake.make()
    lake.land(0, 2)
    lake.land(2, 4)
    old = after_now()
    lake.table.compact(target_bytes=1 << 20)
    compacted = lake.head
    lake.land(4, 9)
    lake.table.expire(older_than_ms=old)

    lake.roll_back(compacted.snapshot_id)

    assert lake.ids() == [0, 1, 2, 3]
    assert lake.table.offsets([0]) == {0: 4}


def test_a_snapshot_without_offsets_keeps_the_one_before_it_that_has_some(lake: Lake) -> None:
    lake.make()
    lake.land(0, 2)
    lake.land(2, 4)
    old = after_now()
    lake.table._table.append(pa.table({"id": [100]}, ROWS))
    foreign = lake.head
    lake.land(4, 9)

    assert lake.table.expire(older_than_ms=old)[0] == 1

    lake.roll_back(foreign.snapshot_id)
    assert lake.table.offsets([0]) == {0: 4}


def expired(monkeypatch: pytest.MonkeyPatch, parents: list[int | None], known: set[int]) -> Any:
    """Return which snapshots of a time before expire, and how often any was looked at. Snapshots
    are numbered from 0; odd ones are of a time before, and the last one is the branch's."""
    looked = Counter[int]()

    def offsets_of(snapshot: Any) -> str | None:
        looked[snapshot.snapshot_id] += 1
        return "{}" if snapshot.snapshot_id in known else None

    snapshots = [
        SimpleNamespace(snapshot_id=each, parent_snapshot_id=parent, timestamp_ms=each % 2 == 0)
        for each, parent in enumerate(parents)
    ]
    refs = {"main": SimpleNamespace(snapshot_id=len(snapshots) - 1)}
    table: Any = SimpleNamespace(metadata=SimpleNamespace(snapshots=snapshots, refs=refs))
    nothing: Any = None
    monkeypatch.setattr("headrace.landing.iceberg_maintenance.offsets_of", offsets_of)
    found = IcebergMaintenance(nothing, table, nothing, nothing)._expired(
        datetime.fromtimestamp(0.0005, UTC)
    )
    return found, looked.total()


def test_expiry_keeps_what_later_snapshots_continue_at(monkeypatch: pytest.MonkeyPatch) -> None:
    line: list[int | None] = [None, *range(8)]
    assert expired(monkeypatch, line, {1, 5, 6, 7})[0] == [5]
    assert expired(monkeypatch, line, set(range(9)))[0] == [1, 3, 5, 7]
    assert expired(monkeypatch, line, set())[0] == [1, 3, 5, 7]
    branches: list[int | None] = [None, 0, 1, 1, 3, 2, 5, 5]
    assert expired(monkeypatch, branches, {1})[0] == []


def test_expiry_looks_at_a_snapshot_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    count = 1000
    found, looks = expired(monkeypatch, [None, *range(count - 1)], {0})

    assert found == []
    assert looks <= 3 * count


def test_a_compaction_beside_a_landing_does_not_move_its_offsets_back(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.make()
    lake.land(0, 2)
    lake.land(2, 4)
    done = before_commit(monkeypatch, lambda: lake.land(4, 6))

    assert lake.table.compact(target_bytes=1 << 20) == (2, 1)

    assert done
    assert lake.table.offsets([0]) == {0: 6}
    assert lake.head.summary[OFFSETS] == '{"0": 6}'
    assert lake.ids() == [0, 1, 2, 3, 4, 5]


def test_a_compaction_brings_no_row_back_that_was_removed_meanwhile(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lake.make(UPSERT)
    lake.land(0, 2)
    lake.land(2, 4)
    done = before_commit(monkeypatch, lambda: lake.land(0, 2, pa.array([True, True])))
    files = set(tmp_path.rglob("*.parquet"))

    assert lake.table.compact(target_bytes=1 << 20) == (0, 0)

    assert done
    assert lake.ids() == [2, 3]
    assert set(tmp_path.rglob("*.parquet")) == files


def lose_answer(
    monkeypatch: pytest.MonkeyPatch, then: Callable[[], None] = lambda: None
) -> list[None]:
    """Report the next commit as failed, after it was made and another program has acted."""
    from pyiceberg.exceptions import CommitFailedException
    from pyiceberg.table import Table

    real, lost = Table._do_commit, list[None]()

    def commit(table: Table, *arguments: Any, **named: Any) -> None:
        real(table, *arguments, **named)
        if not lost:
            lost.append(None)
            then()
            raise CommitFailedException("the answer was lost, and the request sent again")

    monkeypatch.setattr(Table, "_do_commit", commit)
    return lost


def test_a_landing_that_was_made_but_reported_as_failed_counts(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.make()
    lake.land(0, 2)
    lost = lose_answer(monkeypatch)

    lake.land(2, 4)

    assert lost
    assert lake.ids() == [0, 1, 2, 3]
    assert lake.table.offsets([0]) == {0: 4}


def test_a_compaction_that_was_made_but_reported_as_failed_counts(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.make()
    lake.land(0, 2)
    lake.land(2, 4)
    lost = lose_answer(monkeypatch, lambda: lake.land(4, 6))

    assert lake.table.compact(target_bytes=1 << 20) == (2, 1)

    assert lost
    assert lake.ids() == [0, 1, 2, 3, 4, 5]
    assert lake.table.offsets([0]) == {0: 6}


def test_a_compaction_never_removes_files_that_the_table_names(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.exceptions import CommitFailedException

    real, lost = IcebergMaintenance._commit, list[None]()

    def commit(maintenance: Any, *arguments: Any) -> None:
        before = maintenance._whole
        real(maintenance, *arguments)
        maintenance._whole = before
        lost.append(None)
        raise CommitFailedException("as if the snapshot had expired at once")

    lake.make()
    lake.land(0, 2)
    lake.land(2, 4)
    monkeypatch.setattr(IcebergMaintenance, "_commit", commit)

    assert lake.table.compact(target_bytes=1 << 20) == (2, 1)

    assert len(lost) == 1
    assert lake.ids() == [0, 1, 2, 3]


def test_a_new_table_has_a_location_of_its_own(lake: Lake) -> None:
    from pyiceberg.catalog import load_catalog

    lake.make()
    lake.land(0, 3)
    catalog = load_catalog("lake", **lake.catalog)
    catalog.rename_table("shop.clicks", "shop.clicks_2026")
    lake.make()
    lake.land(0, 1)

    lake.table.expire(older_than_ms=after_now())

    assert catalog.load_table("shop.clicks_2026").scan().to_arrow().num_rows == 3


def test_files_of_another_table_are_not_removed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.catalog import load_catalog

    monkeypatch.setattr("headrace.landing.iceberg_table._new_location", lambda *_: None)
    lake.make()
    lake.land(0, 3)
    catalog = load_catalog("lake", **lake.catalog)
    catalog.rename_table("shop.clicks", "shop.clicks_2026")
    lake.make()
    lake.land(0, 1)

    with pytest.raises(LandingError, match="is of another table, so no file is removed"):
        lake.table.expire(older_than_ms=after_now())

    assert catalog.load_table("shop.clicks_2026").scan().to_arrow().num_rows == 3


def test_metadata_that_was_cut_off_is_removed(lake: Lake) -> None:
    lake.make()
    lake.land(0, 3)
    folder = Path(lake.table.location.removeprefix("file://")) / "metadata"
    cut = folder / "00009-x.metadata.json"
    cut.write_text('{"format-version": 2, "table-')

    lake.table.expire(older_than_ms=after_now())

    assert not cut.exists()
    assert lake.ids() == [0, 1, 2]
