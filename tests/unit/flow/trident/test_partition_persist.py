"""States that an updater changes, batch by batch, without Spark."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from headrace.flow.error import EmitError, FlowError, Unrecoverable
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.work import TaskContext, TupleSource, Work
from headrace.flow.runtime.emission import Emission
from headrace.flow.runtime.tuple_batch import TupleBatch, no_origin
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.trident.parquet_state import ParquetState
from headrace.flow.trident.sqlite_state import SqliteState
from headrace.flow.trident.state import State, StateFactory, StateFields
from headrace.flow.trident.stream import Stream
from headrace.flow.trident.topic_state import TopicState
from headrace.flow.trident.topology import TridentTopology
from headrace.flow.trident.update_work import BackedUpdateWork, StateUpdateWork
from headrace.flow.trident.updater import StateUpdater
from headrace.testing.flow_run import FlowRun

FIELDS = StateFields(Fields.parse("user STRING"), Fields.parse("visits BIGINT, place STRING"))
CONTEXT = TaskContext("plan", "places", 0, 1)


class Places(StateUpdater):
    """Counts visits and keeps the last place; emits users that are new."""

    def update_state(self, state: Any, tuples: Any, collector: Any) -> None:
        for user, place in tuples:
            if place == "nowhere":
                raise ValueError("there is no such place")
            before = state.get(user)
            if before is None:
                collector.emit(user)
            state.put(user, ((before or (0, ""))[0] + 1, place))


def run(work: Work, *pairs: tuple[str, str]) -> list[Any]:
    """Run one batch in a new process, and return what it emits."""
    columns = {"user": [each[0] for each in pairs], "place": [each[1] for each in pairs]}
    batch = TupleBatch(pa.record_batch(columns), no_origin(len(pairs)))
    emission = Emission("places", {"default": Fields.parse("user STRING")}, batch)
    try:
        source = TupleSource("in", "default", batch.origin)
        work.execute(batch.columns, emission, CONTEXT, source)
    finally:
        work.cleanup()
    return [row["user"] for each in emission.emitted for row in each.batch.columns.to_pylist()]


def places(state: StateFactory, txid: str, updater: Any = None) -> BackedUpdateWork:
    return BackedUpdateWork(state, FIELDS, updater or Places(), ("user", "place"), 1, lambda: txid)


def stored(state: StateFactory, *users: str) -> list[Any]:
    backing = state.open(FIELDS, 0, 1)
    with backing.transaction():
        entries = backing.multi_get([(each,) for each in users])
    backing.close()
    return [None if each is None else each.output for each in entries]


@pytest.mark.parametrize("kind", ["sqlite", "parquet"])
class TestOutsideOfSpark:
    def make(self, kind: str, folder: Path, mode: str) -> StateFactory:
        if kind == "parquet":
            return ParquetState(folder / "state", mode=mode)
        return SqliteState(folder / "state.db", "places", mode=mode)

    def test_an_updater_sees_what_earlier_batches_put(self, kind: str, tmp_path: Path) -> None:
        state = self.make(kind, tmp_path, "opaque")

        first = run(places(state, "q/0"), ("ann", "rome"), ("bob", "oslo"), ("ann", "bonn"))
        second = run(places(state, "q/1"), ("ann", "oslo"), ("eve", "bonn"))

        assert (first, second) == (["ann", "bob"], ["eve"])
        assert stored(state, "ann", "bob", "x") == [(3, "oslo"), (1, "oslo"), None]

    @pytest.mark.parametrize(
        ("mode", "visits"), [("opaque", 3), ("transactional", 2), ("non-transactional", 4)]
    )
    def test_a_repeated_batch_is_treated_as_the_state_says(
        self, kind: str, tmp_path: Path, mode: str, visits: int
    ) -> None:
        state = self.make(kind, tmp_path, mode)
        run(places(state, "q/0"), ("ann", "rome"))
        run(places(state, "q/1"), ("ann", "oslo"))
        run(places(state, "q/1"), ("ann", "oslo"), ("ann", "bonn"))  # with one tuple more

        assert stored(state, "ann")[0][0] == visits

    def test_an_updater_that_raises_fails_the_batch_and_changes_nothing(
        self, kind: str, tmp_path: Path
    ) -> None:
        state = self.make(kind, tmp_path, "opaque")

        with pytest.raises(Unrecoverable, match="did not update its state with a batch: there is"):
            run(places(state, "q/0"), ("ann", "rome"), ("bob", "nowhere"))

        assert stored(state, "ann", "bob") == [None, None]


def test_a_wrong_key_value_or_emit_is_reported(tmp_path: Path) -> None:
    state = SqliteState(tmp_path / "state.db", "places")
    for updater, error in (
        (lambda state, tuples, collector: state.put("ann", 3), EmitError),
        (lambda state, tuples, collector: state.get(None), Unrecoverable),
        (lambda state, tuples, collector: collector.emit("ann", 1), EmitError),
    ):
        with pytest.raises(error):
            run(places(state, "q/0", updater), ("ann", "rome"))


class Ledger(StateFactory):
    """A state of a user's own, in a file; it remembers the last transaction with its values."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def make_state(self, task: int, tasks: int) -> State:
        return LedgerState(self.path)


class LedgerState(State):
    def __init__(self, path: Path) -> None:
        self.path = path
        self.kept = json.loads(path.read_text()) if path.exists() else {"txid": None, "rows": []}

    def begin_commit(self, txid: str) -> None:
        self.done = self.kept["txid"] == txid

    def add(self, row: Any) -> None:
        if not self.done:
            self.kept["rows"].append(row)

    def commit(self, txid: str) -> None:
        self.path.write_text(json.dumps({**self.kept, "txid": txid}))


def add_places(state: LedgerState, tuples: Any, collector: Any) -> None:
    for _, place in tuples:
        if place == "nowhere":
            raise ValueError("there is no such place")
        state.add(place)


def test_a_state_of_ones_own_has_transactions(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.json")

    def work(txid: str) -> Work:
        return StateUpdateWork(ledger, add_places, ("user", "place"), 0, lambda: txid)

    run(work("q/0"), ("ann", "rome"))
    run(work("q/0"), ("ann", "rome"))
    with pytest.raises(Unrecoverable, match="did not update its state with a batch"):
        run(work("q/1"), ("ann", "oslo"), ("ann", "nowhere"))
    run(work("q/1"), ("ann", "bonn"))

    assert json.loads(ledger.path.read_text())["rows"] == ["rome", "bonn"]


def chain() -> tuple[TridentTopology, Stream]:
    topology = TridentTopology("test")
    spout = TopicSpout("in", brokers="127.0.0.1:1", fields="value STRING")
    lines = topology.new_stream("lines", spout)
    return topology, lines.map(lambda line: tuple(line.split()), output="user STRING, place STRING")


def move(state: Any, tuples: Any, collector: Any) -> None:
    for user, place in tuples:
        collector.emit(user, state.get(user), place)
        state.put(user, place)


class TestInSpark:
    def test_changes_go_to_the_topic_and_new_values_into_the_stream(self) -> None:
        topology, pairs = chain()
        state = pairs.partition_by("user").partition_persist(
            TopicState("places"),
            move,
            output="user STRING, old STRING, new STRING",
            key="user",
            value="last STRING",
        )
        state.parallelism_hint(2).new_values_stream().to_topic("moves")
        asked = topology.new_stream(
            "questions", TopicSpout("asks", brokers="127.0.0.1:1", fields="value STRING")
        )
        asked.state_query(state, "value").to_topic("answers")
        flow = FlowRun(topology.plan())

        flow.feed(["ann rome", "bob oslo"])
        flow.feed(["ann bonn", "ann oslo"])
        flow.restart()
        flow.feed(["ann", "eve"], spout="questions")

        values = [
            (each["key"], json.loads(each["value"]))
            for each in flow.records
            if each["topic"] == "places"
        ]
        assert sorted((key, row["last"]) for key, row in values) == [
            (b"ann", "oslo"),
            (b"ann", "rome"),
            (b"bob", "oslo"),
        ]
        moves = [tuple(json.loads(each).values()) for each in flow.values("moves")]
        assert sorted(moves, key=str) == [
            ("ann", "bonn", "oslo"),
            ("ann", "rome", "bonn"),
            ("ann", None, "rome"),
            ("bob", None, "oslo"),
        ]
        answers = [tuple(json.loads(each).values()) for each in flow.values("answers")]
        assert answers == [("ann", "oslo"), ("eve", None)]

    def test_operations_behind_a_repartitioning_keep_its_tasks(self) -> None:
        topology, pairs = chain()
        kept = pairs.partition_by("user").filter(lambda user, place: place != "x")
        kept.partition_persist(TopicState("places"), move_quietly, key="user", value="place")
        flow = FlowRun(topology.plan())
        flow.feed(["ann rome", "bob x"], ["ann oslo"])

        assert [json.loads(each) for each in flow.values("places")] == [
            {"user": "ann", "place": "oslo"}
        ]


def move_quietly(state: Any, tuples: Any, collector: Any) -> None:
    state.multi_put(tuples)


class TestRefused:
    def test_a_repartitioning_that_cannot_be_repeated(self) -> None:
        _, pairs = chain()
        moved = pairs.broadcast().project("user")
        with pytest.raises(FlowError, match=r"or shuffle\(\) right before"):
            moved.partition_persist(TopicState("t"), move, key="user", value="n INT")

    def test_several_tasks_that_share_a_key(self, tmp_path: Path) -> None:
        topology, pairs = chain()
        state = SqliteState(tmp_path / "s.db", "places")
        pairs.partition_persist(state, move, key="user", value="place").parallelism_hint(2)
        with pytest.raises(FlowError, match=r"write partition_by\('user'\) before"):
            topology.plan()

    def test_wrong_arguments(self, tmp_path: Path) -> None:
        _, pairs = chain()
        sqlite, own = SqliteState(tmp_path / "s.db", "places"), Ledger(tmp_path / "l.json")
        for arguments, words in (
            ((sqlite, move), "needs the fields of a SqliteState"),
            ((sqlite, Places), r"give an object, Places\(\)"),
            ((sqlite, 3), "3 is no updater"),
            (("s.db", move), "'s.db' is no state"),
            ((sqlite, move, "usr"), "names the field 'usr'"),
        ):
            with pytest.raises(FlowError, match=words):
                pairs.partition_persist(*arguments)
        with pytest.raises(FlowError, match="has neither key nor value"):
            pairs.partition_persist(own, move, key="user", value="place")
        with pytest.raises(FlowError, match="has make_state and no open"):
            pairs.group_by("user").persistent_aggregate(own, n="count")
        with pytest.raises(FlowError, match="without output="):
            pairs.partition_persist(own, move).new_values_stream()
