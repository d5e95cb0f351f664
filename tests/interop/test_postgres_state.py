"""A Trident state in a real PostgreSQL: what two writers, a reader and a repeated batch see."""

import random
import threading
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from headrace.flow.plan.aggregate import Aggregate
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.work import TaskContext, TupleSource
from headrace.flow.runtime.builtin.aggregate_work import AggregateWork
from headrace.flow.runtime.emission import Emission
from headrace.flow.runtime.tuple_batch import TupleBatch, no_origin
from headrace.flow.trident.persist_work import PersistWork, QueryWork
from headrace.flow.trident.postgres_state import PostgresState
from headrace.flow.trident.state import Mode, StateEntry, StateFields, entry_after, kept_before
from testkit.peer.postgres import PostgresServer

pytestmark = pytest.mark.interop

SHAPE = StateFields(
    Fields.parse("word STRING, day DATE"), Fields.parse("n BIGINT, mean DOUBLE, seen TIMESTAMP")
)


ANSWERS = Fields.parse("word STRING, name STRING, n BIGINT, last STRING")
COUNTS = StateFields(Fields.parse("word STRING, number BIGINT"), Fields.parse("n BIGINT"))


def count(state: PostgresState, txid: str, keys: list[tuple[str, int]]) -> None:
    """One batch that has each key once."""
    backing = state.open(COUNTS, 0, 1)
    with backing.transaction():
        entries = backing.multi_get(keys)
        made = []
        for key, entry in zip(keys, entries, strict=True):
            kept, over = kept_before(state.mode, entry, txid)
            if not over:
                n = int(kept or 0) + 1
                made.append((key, entry_after(state.mode, entry, txid, str(n), (n,))))
        backing.multi_put(made)
    backing.close()


def ask(state: PostgresState, keys: list[tuple[str, int]]) -> list[int | None]:
    backing = state.open_for_queries(COUNTS, 1)
    with backing.transaction():
        found = backing.multi_get(keys)
    backing.close()
    return [None if each is None else each.output[0] for each in found]


@pytest.mark.parametrize("mode", [Mode.OPAQUE, Mode.TRANSACTIONAL])
def test_a_batch_that_is_done_again_counts_once(postgres: PostgresServer, mode: Mode) -> None:
    state = PostgresState(postgres.url, f"public.again_{mode.name.lower()}", mode=mode)
    keys = [(f"word-{n}", n) for n in range(1_200)]  # more than a statement takes at once
    count(state, "q/0", keys)
    count(state, "q/1", keys[:600])
    count(state, "q/1", keys[:600])
    assert ask(state, [keys[0], keys[-1], ("none", 0)]) == [2, 1, None]


def test_writers_of_the_same_keys_wait_for_each_other_in_one_order(
    postgres: PostgresServer,
) -> None:
    state = PostgresState(postgres.url, "together", mode="non-transactional")
    keys = [(f"word-{n}", n) for n in range(50)]
    count(state, "q/0", keys)
    writers = [
        threading.Thread(target=count, args=(state, f"q{n}/0", keys[:: 1 if n % 2 else -1]))
        for n in range(6)
    ]
    for each in writers:
        each.start()
    for each in writers:
        each.join(120)
    assert ask(state, keys) == [7] * 50


def test_a_reader_waits_for_no_writer(postgres: PostgresServer) -> None:
    state = PostgresState(postgres.url, "busy")
    count(state, "q/0", [("a", 1)])
    writer = state.open(COUNTS, 0, 1)
    with writer.transaction():
        writer.multi_get([("a", 1)])
        writer.multi_put([(("a", 1), StateEntry("q/1", "9", None, (9,)))])
        assert ask(state, [("a", 1)]) == [1]
    writer.close()
    assert ask(state, [("a", 1)]) == [9]


def test_tuples_that_postgresql_cannot_keep_are_given_up_and_the_others_count(
    postgres: PostgresServer,
) -> None:
    fields = Fields.parse("word STRING, n BIGINT, last STRING")
    shape, state = StateFields.split(fields, 1), PostgresState(postgres.url, "odd")
    fold = AggregateWork(Aggregate("word", n="count", last="max(name)"))
    words, names = ["a", None, "b\0", "c", "a"], ["x", "x", "x", "y\0", "z"]
    columns = pa.record_batch({"word": words, "name": names})
    batch = TupleBatch(columns, no_origin(columns.num_rows))
    source, context = TupleSource("in", "default", batch.origin), TaskContext("plan", "odd", 0, 1)
    work = PersistWork(state, fold, shape, lambda: "q/0")
    asking = QueryWork(state, shape, ("word",), 1)
    kept = Emission("odd", {"default": fields}, batch)
    asked = Emission("ask", {"default": ANSWERS}, batch)

    work.execute(columns, kept, context, source)
    asking.execute(columns, asked, context, source)
    work.cleanup()
    asking.cleanup()

    assert kept.emitted[0].batch.columns.to_pylist() == [{"word": "a", "n": 2, "last": "z"}]
    given_up = [letters.columns["word"].to_pylist() for letters, _ in kept.dead_letters]
    assert given_up == [[None], ["b\0"], ["c"]]
    assert asked.emitted[0].batch.columns["n"].to_pylist() == [2, None, None, None, 2]


def test_tables_have_the_types_of_their_fields(postgres: PostgresServer) -> None:
    backing = PostgresState(f"jdbc:{postgres.url}", "typed").open(SHAPE, 0, 1)
    with backing.transaction():
        assert backing.multi_get([]) == []
    backing.close()


def test_the_last_second_that_python_has_is_loaded_in_any_zone(postgres: PostgresServer) -> None:
    join = "&" if "?" in postgres.url else "?"
    url = f"{postgres.url}{join}options=-c%20timezone%3DAsia%2FTokyo"
    state = PostgresState(url, "public.last_second")
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    shape = StateFields(Fields.parse("word STRING"), Fields.parse("seen TIMESTAMP"))
    entry = entry_after(state.mode, None, "q/0", "1", (last,))
    # As long as a key may be, and hardly compressible.
    key = (random.Random(7).randbytes(1_300).hex(),)
    backing = state.open(shape, 0, 1)
    with backing.transaction():
        backing.multi_put([(key, entry)])
    with backing.transaction():
        [found] = backing.multi_get([key])
    backing.close()

    assert found is not None
    assert found.output == (last,)
