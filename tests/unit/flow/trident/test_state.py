"""States outside of Spark: a repeated batch counts once."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.flow.error import FlowError, Unrecoverable
from headrace.flow.plan.aggregate import Aggregate
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.work import TaskContext, TupleSource, Work
from headrace.flow.runtime.builtin.aggregate_work import AggregateWork
from headrace.flow.runtime.emission import Emission
from headrace.flow.runtime.tuple_batch import ORIGIN, TupleBatch, no_origin
from headrace.flow.trident import kept_json
from headrace.flow.trident.aggregator import CombinerAggregator
from headrace.flow.trident.fold_work import FoldWork
from headrace.flow.trident.parquet_state import ParquetState
from headrace.flow.trident.persist_work import PersistWork, QueryWork
from headrace.flow.trident.postgres_state import PostgresState
from headrace.flow.trident.refused_row import kept_fields, refused_rows
from headrace.flow.trident.sqlite_state import SqliteState
from headrace.flow.trident.state import Backing, Mode, StateFactory, StateFields

SHAPE = StateFields(Fields.parse("word STRING"), Fields.parse("n BIGINT, mean DOUBLE"))
MADE = Fields.parse("word STRING, n BIGINT, mean DOUBLE")
CONTEXT = TaskContext("plan", "counts", 0, 1)

Make = Callable[[Path, str], StateFactory]


def sqlite(folder: Path, mode: str) -> StateFactory:
    return SqliteState(folder / "state.db", "counts", mode=mode)


def parquet(folder: Path, mode: str) -> StateFactory:
    return ParquetState(folder / "state", mode=mode)


@pytest.fixture(params=[sqlite, parquet])
def make(request: pytest.FixtureRequest) -> Make:
    chosen: Make = request.param
    return chosen


def count() -> Work:
    return AggregateWork(Aggregate("word", n="count", mean="mean(ms)"))


class Clock:
    """The id of the transaction, as a test sets it."""

    def __init__(self, txid: str) -> None:
        self.txid = txid

    def __call__(self) -> str:
        return self.txid


def run(factory: StateFactory, txid: str, *words: str, fold: Work | None = None) -> list[Any]:
    """Run one batch in a new process, and return what it emits."""
    work = PersistWork(factory, fold or count(), SHAPE, Clock(txid))
    columns = {"word": list(words), "ms": pa.array([float(len(each)) for each in words])}
    batch = TupleBatch(pa.record_batch(columns), no_origin(len(words)))
    emission = Emission("counts", {"default": MADE}, batch)
    try:
        work.execute(
            batch.columns, emission, CONTEXT, TupleSource("words", "default", batch.origin)
        )
    finally:
        work.cleanup()
    return sorted(
        tuple(row.values()) for each in emission.emitted for row in each.batch.columns.to_pylist()
    )


def ask(factory: StateFactory, *words: str | None) -> list[tuple[Any, ...]]:
    work = QueryWork(factory, SHAPE, ("word",), 1)
    columns = {"word": pa.array(words, pa.string())}
    batch = TupleBatch(pa.record_batch(columns), no_origin(len(words)))
    emission = Emission("ask", {"default": MADE}, batch)
    work.execute(batch.columns, emission, CONTEXT, TupleSource("words", "default", batch.origin))
    work.cleanup()
    return [tuple(row.values()) for row in emission.emitted[0].batch.columns.to_pylist()]


def test_totals_go_on_from_batch_to_batch(make: Make, tmp_path: Path) -> None:
    state = make(tmp_path, "opaque")
    assert run(state, "q/0", "a", "bb", "a") == [("a", 2, 1.0), ("bb", 1, 2.0)]
    assert run(state, "q/1", "a") == [("a", 3, 1.0)]
    assert ask(state, "bb", "x", "a") == [("bb", 1, 2.0), ("x", None, None), ("a", 3, 1.0)]


@pytest.mark.parametrize(
    ("mode", "again"), [("opaque", 3), ("transactional", 3), ("non-transactional", 4)]
)
def test_a_repeated_batch_counts_once(make: Make, tmp_path: Path, mode: str, again: int) -> None:
    state = make(tmp_path, mode)
    run(state, "q/0", "a", "a")
    run(state, "q/1", "a")
    assert run(state, "q/1", "a") == [("a", again, 1.0)]
    assert ask(state, "a") == [("a", again, 1.0)]


def test_an_opaque_state_accepts_other_tuples_when_a_batch_is_repeated(
    make: Make, tmp_path: Path
) -> None:
    state = make(tmp_path, "opaque")
    run(state, "q/0", "a")
    run(state, "q/1", "a")
    assert run(state, "q/1", "a", "a", "a") == [("a", 4, 1.0)]


def test_a_new_checkpoint_begins_at_batch_0_and_still_counts(make: Make, tmp_path: Path) -> None:
    state = make(tmp_path, "opaque")
    run(state, "old/0", "a")
    assert run(state, "new/0", "a") == [("a", 2, 1.0)]


def test_a_task_of_an_older_batch_is_refused(make: Make, tmp_path: Path) -> None:
    state = make(tmp_path, "opaque")
    run(state, "q/10", "a")
    with pytest.raises(Unrecoverable, match="another run of the same checkpoint is ahead"):
        run(state, "q/9", "a")


class Refusing(CombinerAggregator):
    def init(self, word: str) -> int:
        if word == "bad":
            raise ValueError("a bad word")
        return 1

    def combine(self, one: int, other: int) -> int:
        return one + other

    def result(self, value: int) -> tuple[int, float]:
        return value, 0.0


def test_a_bad_tuple_does_not_make_its_batch_count_twice_or_not_at_all(
    make: Make, tmp_path: Path
) -> None:
    state = make(tmp_path, "transactional")
    fold = FoldWork(Refusing(), ("word",), ("word",), 2)
    assert run(state, "q/0", "a", "bad", "a", fold=fold) == [("a", 2, 0.0)]


def test_a_tuple_whose_key_is_null_is_a_dead_letter_and_the_others_count(tmp_path: Path) -> None:
    state = sqlite(tmp_path, "opaque")
    work = PersistWork(state, count(), SHAPE, Clock("q/0"))
    batch = origins(pa.record_batch({"word": [None, "a", None, "a"], "ms": [1.0, 2.0, 3.0, 4.0]}))
    emission = Emission("counts", {"default": MADE}, batch)

    work.execute(
        batch.columns, emission, CONTEXT, TupleSource("words", "default", lambda: batch.origin)
    )

    (emitted,) = emission.emitted
    assert emitted.batch.columns.to_pylist() == [{"word": "a", "n": 2, "mean": 3.0}]
    assert emitted.batch.origin["_offset"].to_pylist() == [3]
    ((letters, error),) = emission.dead_letters
    assert letters.origin["_offset"].to_pylist() == [0, 2]
    assert str(error) == "a SqliteState cannot keep the word of this tuple: a key cannot be null"
    assert ask(state, "a") == [("a", 2, 3.0)]
    work.cleanup()


def origins(columns: pa.RecordBatch) -> TupleBatch:
    """Return tuples whose offsets are their rows."""
    count = columns.num_rows
    topic = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int16()), ["in"])
    arrays = [topic, pa.array([0] * count, pa.int32()), pa.array(range(count), pa.int64())]
    return TupleBatch(columns, pa.RecordBatch.from_arrays(arrays, schema=ORIGIN))


def test_a_fold_names_the_right_record_behind_one_that_the_state_refuses(tmp_path: Path) -> None:
    work = PersistWork(
        sqlite(tmp_path, "opaque"), FoldWork(Refusing(), ("word",), ("word",), 2), SHAPE, Clock("q")
    )
    batch = origins(pa.record_batch({"word": [None, "a", "bad"]}))
    emission = Emission("counts", {"default": MADE}, batch)

    work.execute(
        batch.columns, emission, CONTEXT, TupleSource("words", "default", lambda: batch.origin)
    )

    offsets = [letters.origin["_offset"].to_pylist() for letters, _ in emission.dead_letters]
    assert offsets == [[0], [2]]
    work.cleanup()


def test_a_key_that_a_state_cannot_keep_has_no_value_there(tmp_path: Path) -> None:
    state = sqlite(tmp_path, "opaque")
    run(state, "q/0", "a")

    assert ask(state, None, "a") == [(None, None, None), ("a", 1, 1.0)]
    assert ask(state, None) == [(None, None, None)]


@pytest.mark.parametrize(
    ("column", "key", "refused"),
    [
        (pa.array(["a", None, "b\0c", "d"]), True, [1, 2]),
        (pa.array(["a", None, "b\0c", "d"]), False, [2]),
        (pa.array([1.0, float("nan"), None]), True, [1, 2]),
        (pa.array([1.0, float("nan"), None]), False, []),
        (pa.array([0, 10**18], pa.timestamp("us", "UTC")), True, [1]),
        (pa.array([0, 10**18], pa.timestamp("us", "UTC")), False, [1]),
    ],
)
def test_what_postgresql_refuses_is_known_before(
    column: pa.Array, key: bool, refused: list[int]
) -> None:
    state = PostgresState("postgresql://127.0.0.1:1/x", "t")
    batch = pa.record_batch({"field": column})

    found = refused_rows(state, batch, *((["field"], []) if key else ([], ["field"])))

    assert sorted(int(row) for rows, _ in found for row in rows) == refused


def test_a_key_that_is_too_long_for_an_index_is_refused() -> None:
    state = PostgresState("postgresql://127.0.0.1:1/x", "t")
    long, umlauts = "x" * 2_600, "ä" * 1_300
    keys = {"word": [long, long, umlauts, umlauts, None], "raw": [b"", b"y", b"", b"y", None]}
    batch = pa.record_batch({**keys, "n": [1] * 5, "value": [long * 2] * 5})

    found = refused_rows(state, batch, ["word", "raw", "n"], ["value"])

    reasons = {int(row): str(error) for rows, error in found for row in rows}
    assert sorted(reasons) == [1, 3, 4]
    assert "cannot keep the key of this tuple: an index of PostgreSQL takes 2600" in reasons[1]
    assert refused_rows(state, batch, ["n"], ["value"]) == []


def test_only_fields_that_a_state_may_get_as_they_are_matter() -> None:
    values = Fields.parse("n BIGINT, last STRING, kinds BIGINT")
    measures = {"n": "count", "last": "max(name)", "kinds": "distinct(other)"}

    given = Fields.parse("word STRING, name STRING, other STRING, at TIMESTAMP, n BIGINT").schema

    assert kept_fields(AggregateWork(Aggregate("word", **measures)), values, given) == ["name"]
    fold = FoldWork(Refusing(), ("word",), ("name", "other", "at", "n"), 1)
    assert kept_fields(fold, Fields.parse("last STRING"), given) == ["name", "other"]
    assert kept_fields(fold, Fields.parse("last TIMESTAMP"), given) == ["at"]
    assert kept_fields(fold, Fields.parse("day DATE, last STRING"), given) == [
        "name",
        "other",
        "at",
    ]
    assert kept_fields(fold, Fields.parse("n BIGINT"), given) == []


class Broken(StateFactory):
    """A database that refuses the first so many calls."""

    def __init__(self, inner: StateFactory, failures: int) -> None:
        self.inner = inner
        self.mode = inner.mode
        self.failures = failures

    def open(self, state_fields: StateFields, task: int, tasks: int) -> Backing:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("connection refused")
        return self.inner.open(state_fields, task, tasks)


def test_a_state_that_fails_once_is_tried_again(tmp_path: Path) -> None:
    assert run(Broken(sqlite(tmp_path, "opaque"), 1), "q/0", "a") == [("a", 1, 1.0)]


def test_a_state_that_keeps_failing_fails_the_batch_without_dead_letters(tmp_path: Path) -> None:
    with pytest.raises(Unrecoverable, match="connection refused"):
        run(Broken(sqlite(tmp_path, "opaque"), 5), "q/0", "a")


def test_a_failure_leaves_nothing_of_a_batch_behind(make: Make, tmp_path: Path) -> None:
    state = make(tmp_path, "opaque")
    run(state, "q/0", "a")
    backing = state.open(SHAPE, 0, 1)
    with pytest.raises(RuntimeError, match="in the middle"), backing.transaction():
        (entry,) = backing.multi_get([("a",)])
        assert entry is not None
        backing.multi_put([(("a",), entry), (("b",), entry)])
        raise RuntimeError("in the middle")
    backing.close()
    assert ask(state, "b") == [("b", None, None)]


def test_a_state_answers_while_another_task_writes_to_it(make: Make, tmp_path: Path) -> None:
    state = make(tmp_path, "opaque")
    run(state, "q/0", "a")
    writer = state.open(SHAPE, 0, 1)
    with writer.transaction():
        (entry,) = writer.multi_get([("a",)])
        assert entry is not None
        writer.multi_put([(("b",), entry)])
        assert ask(state, "a", "b") == [("a", 1, 1.0), ("b", None, None)]
    writer.close()


def test_parquet_files_can_be_read_with_pyarrow_alone(tmp_path: Path) -> None:
    run(ParquetState(tmp_path), "q/0", "a", "a")
    (row,) = pq.read_table(tmp_path / "task-0-of-1.parquet").to_pylist()
    assert (row["word"], row["n"]) == ("a", 2)


def test_parquet_files_of_another_parallelism_are_refused(tmp_path: Path) -> None:
    run(ParquetState(tmp_path), "q/0", "a")
    with pytest.raises(FlowError, match="use the same parallelism"):
        ParquetState(tmp_path).open(SHAPE, 0, 2)


def test_what_an_aggregate_keeps_survives_the_database() -> None:
    kept = [1, 2.5, "x", None, True, (1, "a"), frozenset({1, 2}), b"\x00", [[]], {("k",): 1}]
    assert kept_json.load(kept_json.dump(kept)) == kept


def test_what_a_database_cannot_keep_is_named() -> None:
    with pytest.raises(Unrecoverable, match="a state cannot keep object"):
        kept_json.dump([object()])


def test_modes_have_tridents_names() -> None:
    assert [each.value for each in Mode] == ["non-transactional", "transactional", "opaque"]


@pytest.mark.parametrize(
    ("state", "instead"),
    [
        (ParquetState("pages"), "write file:///"),
        (SqliteState("counts.db", "counts"), "use PostgresState or TopicState"),
        (SqliteState("file:///mnt/counts.db", "counts"), "use PostgresState or TopicState"),
    ],
)
def test_a_state_on_this_machine_is_refused_on_a_cluster(state: StateFactory, instead: str) -> None:
    state.check_master("local[4]")

    with pytest.raises(FlowError, match=f"the tasks of yarn run.*{instead}"):
        state.check_master("yarn")


def test_a_folder_that_all_machines_mount_is_taken() -> None:
    state = ParquetState("file:///mnt/pages")

    state.check_master("yarn")
    assert state.folder == "/mnt/pages"


def test_states_refuse_file_systems_that_they_cannot_write() -> None:
    with pytest.raises(FlowError, match="ParquetState cannot keep files in hdfs://nn/pages"):
        ParquetState("hdfs://nn/pages")
    with pytest.raises(FlowError, match=r"SQLite cannot keep s3a://b/counts\.db"):
        SqliteState("s3a://b/counts.db", "counts")
