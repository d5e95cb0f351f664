"""Folds into a state outside of Spark, and queries of such a state.

Rule 1: users' code runs before the state is written, and a tuple that makes it raise becomes a dead
        letter. So a batch changes a key once, and the transaction id shows whether it did. A tuple
        that the state cannot keep becomes one too; see `refused_row`.
Rule 2: when the state does not answer, no tuple is the cause. The batch is tried once more over a
        new connection. Then it fails as a whole, and Spark repeats it from the checkpoint.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from headrace.flow.error import Unrecoverable
from headrace.flow.plan.work import Emit, TaskContext, TupleSource, Work
from headrace.flow.runtime.task_state import TaskState
from headrace.flow.runtime.tuple_batch import TupleBatch
from headrace.flow.runtime.tuple_value import rows_of
from headrace.flow.trident.kept_json import dump, load
from headrace.flow.trident.refused_row import Rows, kept_fields, refused_rows
from headrace.flow.trident.state import (
    Backing,
    Key,
    StateEntry,
    StateFactory,
    StateFields,
    current_txid,
    entry_after,
    kept_before,
)

TRIES = 2

_Result = TypeVar("_Result")


class BackedWork(Work):
    """Opens a backing on first use, and opens it again after a failure."""

    factory: StateFactory
    _backing: Backing | None = None

    def check_master(self, master: str) -> None:
        self.factory.check_master(master)

    def cleanup(self) -> None:
        self.close()

    def close(self) -> None:
        backing, self._backing = self._backing, None
        if backing is not None:
            backing.close()

    def in_transaction(
        self, open_backing: Callable[[], Backing], use: Callable[[Backing], _Result], problem: str
    ) -> _Result:
        """Return what `use` returns within a transaction; see rule 2.

        Args:
            problem: what the error says if the last try fails.
        """
        for left in reversed(range(TRIES)):
            try:
                if self._backing is None:
                    self._backing = open_backing()
                with self._backing.transaction():
                    return use(self._backing)
            except Unrecoverable:
                raise
            except Exception as error:
                self.close()
                if not left:
                    raise Unrecoverable(f"{problem}: {error}") from error
        raise AssertionError("the last try returns or raises")


class PersistWork(BackedWork):
    """Folds each batch into a state.

    Args:
        fold: emits the key and the value of each key of a batch; see `fold_work`.
        txid: returns the id of the transaction of this task.
    """

    def __init__(
        self,
        factory: StateFactory,
        fold: Work,
        state_fields: StateFields,
        txid: Callable[[], str] = current_txid,
    ) -> None:
        self.factory = factory
        self.fold = fold
        self.state_fields = state_fields
        self._txid = txid

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        rows = self._give_up_refused(batch, emit, source)
        if not len(rows):
            return
        tuples = TupleBatch(batch, source.lazy_origin)
        if len(rows) < batch.num_rows:
            tuples = tuples.take(pa.array(rows))
        keys = list(dict.fromkeys(rows_of(tuples.columns, self.state_fields.key.names)))
        txid = self._txid()
        here = replace(source, lazy_origin=lambda: tuples.origin)

        def fold_batch(backing: Backing) -> _HeldResults:
            held = _HeldResults(emit, rows)
            self._apply(backing, keys, txid, tuples.columns, held, context, here)
            return held

        self.in_transaction(
            lambda: self.factory.open(self.state_fields, context.task, context.tasks),
            fold_batch,
            f"the state of {context.component} did not take a batch",
        ).emit()

    def _give_up_refused(self, batch: pa.RecordBatch, emit: Any, source: TupleSource) -> Rows:
        """Return the rows that the state can keep. The others become dead letters."""
        key, value = self.state_fields.key, self.state_fields.value
        kept = np.ones(batch.num_rows, dtype=bool)
        for rows, reason in refused_rows(
            self.factory, batch, key.names, kept_fields(self.fold, value, batch.schema)
        ):
            kept[rows] = False
            tuples = TupleBatch(batch, source.lazy_origin).take(pa.array(rows))
            emit.dead_letter(tuples, reason)
        return np.flatnonzero(kept)

    def _apply(
        self,
        backing: Backing,
        keys: list[Key],
        txid: str,
        batch: pa.RecordBatch,
        held: "_HeldResults",
        context: TaskContext,
        source: TupleSource,
    ) -> None:
        mode = self.factory.mode
        entries = dict(zip(keys, backing.multi_get(keys), strict=True))
        begun: dict[Any, Any] = {}
        done: dict[Key, StateEntry] = {}
        for key, entry in entries.items():
            kept, stored = kept_before(mode, entry, txid)
            if stored:
                assert entry is not None
                done[key] = entry
            if kept is not None:
                begun[key] = load(kept)
        state = TaskState(begun)
        self.fold.execute(batch, held, replace(context, state=state), source)
        changed = []
        for key, (output, _) in held.by_key(len(self.state_fields.key)).items():
            if key in done:
                held.replace(key, done[key].output)
                continue
            kept = dump(state.get(key))
            changed.append((key, entry_after(mode, entries.get(key), txid, kept, output)))
        backing.multi_put(changed)


class _HeldResults:
    """Keeps what a fold emits until the state has stored it.

    Args:
        given: the row of the component's batch for each row of the fold's.
    """

    def __init__(self, emit: Any, given: Rows) -> None:
        self._emit = emit
        self._given = given
        self._dead_letters: list[tuple[Any, Exception]] = []
        self._by_key: dict[Key, tuple[tuple[Any, ...], int]] = {}
        self._rows: list[tuple[tuple[Any, ...], int]] = []

    def __call__(self, columns: Any, *, rows: Any = None, **_: Any) -> None:
        values = zip(*(_listed(each) for each in columns), strict=True)
        self._rows += list(zip(values, rows, strict=True))

    def dead_letter(self, tuples: Any, failure: Exception) -> None:
        self._dead_letters.append((tuples, failure))

    def by_key(self, key_width: int) -> dict[Key, tuple[tuple[Any, ...], int]]:
        """Return the value of each key, and the row that it was made from."""
        self._by_key = {each[:key_width]: (each[key_width:], row) for each, row in self._rows}
        return self._by_key

    def replace(self, key: Key, output: tuple[Any, ...]) -> None:
        self._by_key[key] = output, self._by_key[key][1]

    def emit(self) -> None:
        for tuples, failure in self._dead_letters:
            self._emit.dead_letter(tuples, failure)
        if self._by_key:
            results = [(*key, *output) for key, (output, _) in self._by_key.items()]
            rows = [int(self._given[row]) for _, row in self._by_key.values()]
            self._emit(list(map(list, zip(*results, strict=True))), rows=rows)


class QueryWork(BackedWork):
    """Appends to each tuple the value of the key in its fields; nulls if the state has none."""

    asks_only = True

    def __init__(
        self, factory: StateFactory, state_fields: StateFields, inputs: tuple[str, ...], tasks: int
    ) -> None:
        self.factory = factory
        self.state_fields = state_fields
        self.inputs = inputs
        self.tasks = tasks

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        # A key that the state cannot keep has no value there, and may not even be asked for.
        kept = np.ones(batch.num_rows, dtype=bool)
        for rows, _ in refused_rows(self.factory, batch, self.inputs):
            kept[rows] = False
        askable = batch if kept.all() else batch.filter(pa.array(kept))
        asked = iter(list(rows_of(askable, self.inputs)))
        wanted = [next(asked) if each else None for each in kept]
        keys = list(dict.fromkeys(each for each in wanted if each is not None))
        entries: dict[Key | None, StateEntry | None] = {}
        if keys:
            entries |= self.in_transaction(
                lambda: self.factory.open_for_queries(self.state_fields, self.tasks),
                lambda backing: dict(zip(keys, backing.multi_get(keys), strict=True)),
                f"the state that {context.component} asks does not answer",
            )
        empty = (None,) * len(self.state_fields.value)
        answers = [each.output if (each := entries.get(key)) else empty for key in wanted]
        columns = map(list, zip(*answers, strict=True))
        emit([*batch.columns, *columns], rows=range(batch.num_rows))


def _listed(column: Any) -> list[Any]:
    return column.to_pylist() if hasattr(column, "to_pylist") else list(column)
