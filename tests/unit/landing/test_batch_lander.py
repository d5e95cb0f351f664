"""Batches whose tasks write files elsewhere: repeated, with gaps, columns and bad records."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.landing.batch_lander import Batch, BatchLander, BatchOptions, _merged
from headrace.landing.batch_task import BatchTask, TaskFiles
from headrace.landing.column_ddl import declared_columns
from headrace.landing.error import AnotherLanding, LandingError, RecordsLost
from headrace.landing.row.choice import row_decoder
from headrace.landing.source import Source
from headrace.landing.table_factory import existing_table
from headrace.model.table.table_name import TableName
from headrace.records.column import HEADERS

pytest.importorskip("deltalake")
pytest.importorskip("pyiceberg")

Records = list[tuple[int, int, bytes]]
"""Partition, offset and value."""


class Ground:
    """A table of one kind, and landers that new processes would have."""

    def __init__(self, folder: Path, kind: str) -> None:
        text = f"delta:{folder}/clicks" if kind == "delta" else "iceberg:lake.shop.clicks"
        self.name = TableName.parse(text)
        self.catalog = {
            "uri": f"sqlite:///{folder}/lake.db",
            "warehouse": f"file://{folder}/lake",
        }

    def lander(
        self,
        values: str = "raw",
        columns: str | None = None,
        check: Callable[[], None] = lambda: None,
        by: str | None = None,
        keys: tuple[str, ...] = (),
        envelope: str | None = None,
    ) -> BatchLander:
        declared = None if columns is None else declared_columns(columns)
        return BatchLander(
            Source(
                topic="clicks",
                topic_id="1",
                values=values,
                keys=keys,
                envelope=envelope,
                partition_by=by,
            ),
            BatchOptions(
                table=self.name,
                catalog=self.catalog,
                columns=row_decoder(values, columns=declared, keys=keys, envelope=envelope).columns,
                retry_seconds=0.0,
            ),
            check,
        )

    def rows(self, name: TableName | None = None) -> list[dict[str, Any]]:
        name = name or self.name
        if name.kind == "delta":
            from deltalake import DeltaTable

            table = DeltaTable(str(name.path)).to_pyarrow_table()
        else:
            from pyiceberg.catalog import load_catalog

            table = load_catalog("lake", **self.catalog).load_table(name.identifier).scan()
            table = table.to_arrow()
        found: list[dict[str, Any]] = table.to_pylist()
        return found

    def offsets(self) -> dict[int, int]:
        return existing_table(self.name, self.catalog).offsets([0, 1])


@pytest.fixture(params=["delta", "iceberg"])
def ground(tmp_path: Path, request: pytest.FixtureRequest) -> Ground:
    return Ground(tmp_path, request.param)


def batch_of(records: Records) -> pa.RecordBatch:
    rows = len(records)
    columns = {
        "partition": pa.array([each[0] for each in records], pa.int32()),
        "offset": pa.array([each[1] for each in records], pa.int64()),
        "timestamp": pa.array([1_000_000] * rows, pa.int64()).cast(pa.timestamp("us", "UTC")),
        "key": pa.nulls(rows, pa.binary()),
        "value": pa.array([each[2] for each in records], pa.binary()),
        "headers": pa.nulls(rows, HEADERS),
    }
    return pa.RecordBatch.from_pydict(columns)


def tasks(*parts: Records) -> Callable[[BatchTask], list[TaskFiles]]:
    """Return what runs a task for parts of a batch, each as if in a process of its own."""

    def run(task: BatchTask) -> list[TaskFiles]:
        found = []
        for each in parts:
            written = pickle.loads(pickle.dumps(task)).run([batch_of(each)] if each else [])
            found.append(pickle.loads(pickle.dumps(written)))
        return found

    return run


FIRST = Batch(None, {0: 2, 1: 1})
FIRST_PARTS: tuple[Records, ...] = ([(0, 0, b"a"), (0, 1, b"b")], [(1, 0, b"c")])


def values(ground: Ground) -> list[bytes]:
    return sorted(each["value"] for each in ground.rows())


def test_a_batch_lands_once_however_often_it_comes(ground: Ground) -> None:
    assert ground.lander().land(FIRST, tasks(*FIRST_PARTS)) == 3
    assert ground.lander().land(FIRST, tasks(*FIRST_PARTS)) == 0
    second = Batch({0: 2, 1: 1}, {0: 3, 1: 1}, follows_landed=True)
    assert ground.lander().land(second, tasks([(0, 2, b"d")], [])) == 1

    assert values(ground) == [b"a", b"b", b"c", b"d"]
    assert ground.offsets() == {0: 3, 1: 1}
    assert all(each["headers"] == [] for each in ground.rows())


def test_a_batch_that_another_process_landed_in_part_adds_the_rest(ground: Ground) -> None:
    ground.lander().land(Batch(None, {0: 1, 1: 1}), tasks([(0, 0, b"a")], [(1, 0, b"c")]))

    assert ground.lander().land(FIRST, tasks(*FIRST_PARTS)) == 1
    assert values(ground) == [b"a", b"b", b"c"]


def test_what_another_process_lands_meanwhile_is_not_doubled(ground: Ground) -> None:
    ground.lander().land(Batch(None, {0: 0}), tasks([]))

    def run(task: BatchTask) -> list[TaskFiles]:
        ground.lander().land(FIRST, tasks(*FIRST_PARTS))
        return tasks(*FIRST_PARTS)(task)

    with pytest.raises(AnotherLanding):
        ground.lander().land(FIRST, run)
    assert values(ground) == [b"a", b"b", b"c"]


def event(op: str, before: int | None, after: tuple[int, str] | None) -> bytes:
    """Return a change event of a row with an id and a name."""
    row = None if after is None else {"id": after[0], "name": after[1]}
    old = None if before is None else {"id": before, "name": ""}
    return json.dumps({"op": op, "before": old, "after": row}).encode()


def changing(ground: Ground) -> BatchLander:
    return ground.lander("json", "id INT, name STRING", keys=("id",), envelope="debezium")


def test_changes_are_merged_in_the_order_of_the_log_whichever_task_read_them(
    ground: Ground,
) -> None:
    first = Batch(None, {0: 3, 1: 1})
    # Two tasks read partition 0, and the later part comes first.
    parts: tuple[Records, ...] = (
        [(0, 2, event("u", 1, (1, "new")))],
        [(1, 0, event("c", None, (9, "nine")))],
        [(0, 0, event("c", None, (1, "one"))), (0, 1, event("c", None, (2, "two")))],
    )
    assert changing(ground).land(first, tasks(*parts)) == 4
    assert changing(ground).land(first, tasks(*parts)) == 0
    second = Batch({0: 3, 1: 1}, {0: 6, 1: 1}, follows_landed=True)
    changes: Records = [(0, 3, event("d", 2, None)), (0, 4, b"no event"), (0, 5, b"{}")]
    changing(ground).land(second, tasks(changes, []))

    rows = {each["id"]: each["name"] for each in ground.rows()}
    assert rows == {1: "new", 9: "nine"}
    assert ground.offsets() == {0: 6, 1: 1}
    assert {each["offset"] for each in ground.rows(ground.name.dead_letters)} == {4, 5}


def test_changes_that_do_not_fit_into_memory_are_refused(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.landing.batch_task._MOST_CHANGED", 100)
    parts: Records = [(0, each, event("c", None, (each, "x" * 50))) for each in range(9)]

    with pytest.raises(LandingError, match="maxOffsetsPerTrigger"):
        changing(ground).land(Batch(None, {0: 9, 1: 0}), tasks(parts))
    assert ground.rows() == []


def test_a_crash_before_the_commit_leaves_nothing(ground: Ground) -> None:
    def crash() -> None:
        raise LandingError("the process ends here")

    with pytest.raises(LandingError, match="ends here"):
        ground.lander(check=crash).land(FIRST, tasks(*FIRST_PARTS))
    assert ground.rows() == []

    ground.lander().land(FIRST, tasks(*FIRST_PARTS))
    assert values(ground) == [b"a", b"b", b"c"]


def test_a_gap_is_refused(ground: Ground) -> None:
    behind = Batch({0: 5}, {0: 6}, follows_landed=True)
    with pytest.raises(RecordsLost, match="up to offset 0, and the checkpoint goes on at 5"):
        ground.lander().land(behind, tasks([(0, 5, b"f")]))

    ground.lander().land(FIRST, tasks(*FIRST_PARTS))
    with pytest.raises(RecordsLost, match="up to offset 2, and the checkpoint goes on at 5"):
        ground.lander().land(behind, tasks([(0, 5, b"f")]))


def test_offsets_move_without_records(ground: Ground) -> None:
    lander = ground.lander()
    lander.land(FIRST, tasks(*FIRST_PARTS))
    lander.land(Batch({0: 2, 1: 1}, {0: 9, 1: 1}, follows_landed=True), tasks([], []))

    assert ground.offsets() == {0: 9, 1: 1}


def test_records_show_the_columns_and_bad_ones_become_dead_letters(ground: Ground) -> None:
    parts: tuple[Records, ...] = (
        [(0, 0, b'{"id": 1}'), (0, 1, b"no json")],
        [(1, 0, b'{"id": 2.5, "page": "home"}')],
    )
    lander = ground.lander("json")
    lander.land(FIRST, tasks(*parts))
    ground.lander("json").land(FIRST, tasks(*parts))

    rows = sorted((each["id"], each["page"], each["_offset"]) for each in ground.rows())
    assert rows == [(1.0, None, 0), (2.5, "home", 0)]
    (letter,) = ground.rows(ground.name.dead_letters)
    assert (letter["partition"], letter["offset"], letter["value"]) == (0, 1, b"no json")


def test_dead_letters_of_a_batch_that_was_not_committed_come_once(ground: Ground) -> None:
    lander = ground.lander("json", "id INT")
    lander.land(Batch(None, {0: 1}), tasks([(0, 0, b"bad")]))
    crashed = ground.lander("json", "id INT")
    second = Batch({0: 1}, {0: 3}, follows_landed=True)
    part: Records = [(0, 1, b"worse"), (0, 2, b'{"id": 7}')]

    def unavailable(*arguments: object) -> None:
        raise LandingError("the process ends here")

    table = crashed.open()
    assert table is not None
    table.append = unavailable  # type: ignore[method-assign]
    with pytest.raises(LandingError, match="ends here"):
        crashed.land(second, tasks(part))
    ground.lander("json", "id INT").land(second, tasks(part))

    assert [each["id"] for each in ground.rows()] == [7]
    letters = ground.rows(ground.name.dead_letters)
    assert sorted(each["value"] for each in letters) == [b"bad", b"worse"]


def ended(*arguments: object) -> None:
    raise LandingError("the process ends here")


def test_dead_letters_of_a_first_batch_that_was_not_committed_come_once(ground: Ground) -> None:
    part: Records = [(0, 0, b"bad"), (0, 1, b'{"id": 7}')]
    first = Batch(None, {0: 2})
    crashed = ground.lander("json", "id INT")
    crashed.land(Batch(None, {1: 0}), tasks([]))
    table = crashed.open()
    assert table is not None
    table.append = ended  # type: ignore[method-assign]
    with pytest.raises(LandingError, match="ends here"):
        crashed.land(first, tasks(part))
    ground.lander("json", "id INT").land(first, tasks(part))

    assert [each["id"] for each in ground.rows()] == [7]
    assert [each["value"] for each in ground.rows(ground.name.dead_letters)] == [b"bad"]


def test_only_the_first_batch_with_a_bad_record_is_read_twice(ground: Ground) -> None:
    lander = ground.lander("json", "id INT")
    rounds = []

    def land(by: BatchLander, at: int) -> None:
        def run(task: BatchTask) -> list[TaskFiles]:
            rounds.append(at)
            return tasks([(0, at, b"bad")])(task)

        by.land(Batch({0: at}, {0: at + 1}, follows_landed=at > 0), run)

    land(lander, 0)
    land(lander, 1)
    land(ground.lander("json", "id INT"), 2)
    land(lander, 3)

    assert rounds == [0, 0, 1, 2, 2, 3]
    letters = ground.rows(ground.name.dead_letters)
    assert sorted(each["offset"] for each in letters) == [0, 1, 2, 3]


def test_a_first_batch_without_columns_is_said(ground: Ground) -> None:
    with pytest.raises(LandingError, match="shows the columns"):
        ground.lander("json").land(FIRST, tasks([(0, 0, b"x")]))
    assert ground.lander("json").land(FIRST, tasks([])) == 0


def test_files_are_split_by_the_hour(ground: Ground) -> None:
    lander = ground.lander(by="hour(timestamp)")
    lander.land(FIRST, tasks(*FIRST_PARTS))

    assert values(ground) == [b"a", b"b", b"c"]
    assert existing_table(ground.name, ground.catalog).source.partition_by == "hour(timestamp)"


def test_columns_that_one_task_finds_are_added_before_all_write(ground: Ground) -> None:
    lander = ground.lander("json", "id INT")
    lander.land(Batch(None, {0: 0}), tasks([]))
    part: Records = [(0, 0, b'{"id": 1, "n": 5}')]
    written: list[str] = []

    def run(task: BatchTask) -> list[TaskFiles]:
        assert task.columns is not None
        found = tasks(part)(task)
        if "n" in task.columns.names:
            return found
        written.extend(file.path for each in found for file in each.files)
        return [*found, TaskFiles(1, new_columns=(pa.field("n", pa.int64()),))]

    assert lander.land(Batch(None, {0: 1}), run) == 1

    assert [(each["id"], each["n"]) for each in ground.rows()] == [(1, 5)]
    assert len(written) == 1
    folder = ground.name.path if ground.name.kind == "delta" else Path()
    assert not (folder / written[0].removeprefix("file://")).exists()


def test_columns_that_no_table_can_have_together_are_not_merged() -> None:
    wide, point = pa.field("n", pa.decimal128(38, 0)), pa.field("n", pa.decimal128(38, 20))

    found = _merged([[pa.field("ID", pa.int32()), wide], [pa.field("id", pa.int32()), point]])

    assert found == pa.schema([pa.field("ID", pa.int32()), wide])


def test_files_that_only_another_machine_has_are_not_committed(ground: Ground) -> None:
    def elsewhere(task: BatchTask) -> list[TaskFiles]:
        found = tasks(*FIRST_PARTS)(task)
        assert task.target is not None
        task.target.remove_file(found[0].files[0].path)
        return found

    with pytest.raises(LandingError, match="is not on this machine"):
        ground.lander().land(FIRST, elsewhere)
    assert ground.rows() == []
    ground.lander().land(FIRST, tasks(*FIRST_PARTS))
    assert values(ground) == [b"a", b"b", b"c"]


def test_the_location_of_the_table_itself_is_checked(ground: Ground) -> None:
    seen: list[str] = []
    for _ in range(2):
        lander = ground.lander()
        lander._check_location = seen.append
        lander.land(FIRST, tasks(*FIRST_PARTS))

    assert len(seen) == 2
    assert all("clicks" in each for each in seen)


def test_options_do_not_show_the_catalog(ground: Ground) -> None:
    assert "lake.db" not in repr(ground.lander()._options)
