"""A fold whose values lie in a state outside of Spark, and the asking of such a state.

Rule 1: users' code runs before the state is touched, and a tuple that makes it raise is buried: so
        a batch changes a key once, and the transaction id can tell whether it did.
Rule 2: when the state does not answer, no tuple is to blame. It is tried once more over a new
        connection, then the batch fails and is done again from the checkpoint.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headrace.flow.error import Unrecoverable
from headrace.flow.runtime.task_state import TaskState
from headrace.flow.runtime.work import Emit, Source, TaskContext, Work
from headrace.flow.trident.kept_json import dump, load
from headrace.flow.trident.operation import rows_of
from headrace.flow.trident.state import (
    Backing,
    Entry,
    Key,
    Shape,
    StateFactory,
    after,
    before,
    current_txid,
)

_TRIES = 2


class PersistWork(Work):
    """Folds each batch into a state.

    Args:
        fold: emits the key and the value of each key that came; see `fold_work`.
        txid: the id of the transaction at hand.
    """

    def __init__(
        self,
        factory: StateFactory,
        fold: Work,
        shape: Shape,
        txid: Callable[[], str] = current_txid,
    ) -> None:
        self.factory = factory
        self.fold = fold
        self.shape = shape
        self._txid = txid
        self._backing: Backing | None = None

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: Source
    ) -> None:
        keys = list(dict.fromkeys(rows_of(batch, self.shape.key.names)))
        txid = self._txid()
        for left in reversed(range(_TRIES)):
            trial = _Trial(emit)
            try:
                backing = self._open(context)
                with backing.transaction():
                    self._apply(backing, keys, txid, batch, trial, context, source)
            except Unrecoverable:
                raise
            except Exception as error:
                self.cleanup()
                if not left:
                    raise Unrecoverable(
                        f"the state of {context.component} did not take a batch: {error}"
                    ) from error
            else:
                trial.tell()
                return

    def cleanup(self) -> None:
        backing, self._backing = self._backing, None
        if backing is not None:
            backing.close()

    def _open(self, context: TaskContext) -> Backing:
        if self._backing is None:
            self._backing = self.factory.open(self.shape, context.task, context.tasks)
        return self._backing

    def _apply(
        self,
        backing: Backing,
        keys: list[Key],
        txid: str,
        batch: pa.RecordBatch,
        trial: "_Trial",
        context: TaskContext,
        source: Source,
    ) -> None:
        mode = self.factory.mode
        entries = dict(zip(keys, backing.multi_get(keys), strict=True))
        begun: dict[Any, Any] = {}
        done: dict[Key, Entry] = {}
        for key, entry in entries.items():
            kept, over = before(mode, entry, txid)
            if over:
                assert entry is not None
                done[key] = entry
            if kept is not None:
                begun[key] = load(kept)
        state = TaskState(begun)
        self.fold.execute(batch, trial, replace(context, state=state), source)
        changed = []
        for key, (output, _) in trial.made(len(self.shape.key)).items():
            if key in done:
                trial.replace(key, done[key].output)
                continue
            kept = dump(state.get(key))
            changed.append((key, after(mode, entries.get(key), txid, kept, output)))
        backing.multi_put(changed)


class _Trial:
    """What a fold emits, until the state has taken it."""

    def __init__(self, emit: Any) -> None:
        self._emit = emit
        self._buried: list[tuple[Any, Exception]] = []
        self._made: dict[Key, tuple[tuple[Any, ...], int]] = {}
        self._rows: list[tuple[tuple[Any, ...], int]] = []

    def __call__(self, columns: Any, *, rows: Any = None, **_: Any) -> None:
        values = zip(*(_listed(each) for each in columns), strict=True)
        self._rows += list(zip(values, rows, strict=True))

    def bury(self, tuples: Any, failure: Exception) -> None:
        self._buried.append((tuples, failure))

    def made(self, key_width: int) -> dict[Key, tuple[tuple[Any, ...], int]]:
        self._made = {each[:key_width]: (each[key_width:], row) for each, row in self._rows}
        return self._made

    def replace(self, key: Key, output: tuple[Any, ...]) -> None:
        self._made[key] = output, self._made[key][1]

    def tell(self) -> None:
        for tuples, failure in self._buried:
            self._emit.bury(tuples, failure)
        if self._made:
            made = [(*key, *output) for key, (output, _) in self._made.items()]
            rows = [row for _, row in self._made.values()]
            self._emit(list(map(list, zip(*made, strict=True))), rows=rows)


class QueryWork(Work):
    """Appends to each tuple what a state has for a key in its fields; nulls if nothing."""

    def __init__(
        self, factory: StateFactory, shape: Shape, inputs: tuple[str, ...], tasks: int
    ) -> None:
        self.factory = factory
        self.shape = shape
        self.inputs = inputs
        self.tasks = tasks
        self._backing: Backing | None = None

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: Source
    ) -> None:
        asked = list(rows_of(batch, self.inputs))
        keys = list(dict.fromkeys(asked))
        found = dict(zip(keys, self._ask(keys, context), strict=True))
        empty = (None,) * len(self.shape.value)
        answers = [each.output if (each := found[key]) else empty for key in asked]
        columns = map(list, zip(*answers, strict=True))
        emit([*batch.columns, *columns], rows=range(batch.num_rows))

    def cleanup(self) -> None:
        backing, self._backing = self._backing, None
        if backing is not None:
            backing.close()

    def _ask(self, keys: list[Key], context: TaskContext) -> list[Entry | None]:
        for left in reversed(range(_TRIES)):
            try:
                if self._backing is None:
                    self._backing = self.factory.open_for_queries(self.shape, self.tasks)
                with self._backing.transaction():
                    return self._backing.multi_get(keys)
            except Exception as error:
                self.cleanup()
                if not left:
                    raise Unrecoverable(
                        f"the state that {context.component} asks does not answer: {error}"
                    ) from error
        raise AssertionError("the last try returns or raises")


def _listed(column: Any) -> list[Any]:
    return column.to_pylist() if hasattr(column, "to_pylist") else list(column)
