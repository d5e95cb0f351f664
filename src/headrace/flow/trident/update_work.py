"""Updating a state with what a batch has in a task: `partition_persist`.

Rule 1: a task updates its state once per batch, with all of its tuples: one update has one id of a
        transaction. So the tuples are always carried to the task.
Rule 2: an updater sees a whole batch, so no tuple is to blame when it raises. A state outside of
        Spark then fails the batch as a whole, after one more try. In Spark's own state the tuples
        that raise are found as for any bolt, and become dead letters.
"""

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from headrace.flow.error import Unrecoverable
from headrace.flow.plan.work import Emit, TaskContext, TupleSource, Work
from headrace.flow.runtime.tuple_value import rows_of
from headrace.flow.trident.fold_work import ANSWER
from headrace.flow.trident.map_state import BackedMapState, SparkMapState
from headrace.flow.trident.persist_work import TRIES, BackedWork
from headrace.flow.trident.state import (
    Backing,
    State,
    StateFactory,
    StateFields,
    current_txid,
)
from headrace.flow.trident.updater import TridentCollector, update_function

CHANGES = "changes"
"""The stream of keys and values that an updater put, for the topic of a `TopicState`."""


class _Updating(Work):
    """Calls an updater.

    Args:
        inputs: the fields of the tuples that it is called with.
        width: how many fields it emits.
    """

    def __init__(self, updater: Any, inputs: tuple[str, ...], width: int) -> None:
        self.function = updater
        self.inputs = inputs
        self.width = width

    def prepare(self, context: TaskContext) -> None:
        if hasattr(self.function, "prepare"):
            self.function.prepare(context.task, context.tasks)

    def cleanup(self) -> None:
        if hasattr(self.function, "cleanup"):
            self.function.cleanup()

    def update(self, state: Any, batch: pa.RecordBatch) -> TridentCollector:
        collector = TridentCollector(self.width)
        update_function(self.function)(state, list(rows_of(batch, self.inputs)), collector)
        return collector

    def emit(self, collector: TridentCollector, emit: Emit) -> None:
        if collector.tuples and self.width:
            emit(list(map(list, zip(*collector.tuples, strict=True))))


class BackedUpdateWork(_Updating, BackedWork):
    """Updates a `MapState` outside of Spark."""

    def __init__(
        self,
        factory: StateFactory,
        state_fields: StateFields,
        updater: Any,
        inputs: tuple[str, ...],
        width: int,
        txid: Callable[[], str] = current_txid,
    ) -> None:
        super().__init__(updater, inputs, width)
        self.factory = factory
        self.state_fields = state_fields
        self._txid = txid

    def cleanup(self) -> None:
        super().cleanup()
        self.close()

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        txid = self._txid()

        def update(backing: Backing) -> TridentCollector:
            state = BackedMapState(backing, self.state_fields, self.factory.mode, txid)
            collector = self.update(state, batch)
            state.write()
            return collector

        collector = self.in_transaction(
            lambda: self.factory.open(self.state_fields, context.task, context.tasks),
            update,
            f"{context.component} did not update its state with a batch",
        )
        self.emit(collector, emit)


class StateUpdateWork(_Updating):
    """Updates a state of the user's own."""

    def __init__(
        self,
        factory: StateFactory,
        updater: Any,
        inputs: tuple[str, ...],
        width: int,
        txid: Callable[[], str] = current_txid,
    ) -> None:
        super().__init__(updater, inputs, width)
        self.factory = factory
        self._txid = txid
        self._state: State | None = None

    def check_master(self, master: str) -> None:
        self.factory.check_master(master)

    def cleanup(self) -> None:
        super().cleanup()
        self._close()

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        txid = self._txid()
        for left in reversed(range(TRIES)):
            try:
                if self._state is None:
                    self._state = self.factory.make_state(context.task, context.tasks)
                self._state.begin_commit(txid)
                collector = self.update(self._state, batch)
                self._state.commit(txid)
            except Unrecoverable:
                raise
            except Exception as error:
                self._close()
                if not left:
                    raise Unrecoverable(
                        f"{context.component} did not update its state with a batch: {error}"
                    ) from error
            else:
                self.emit(collector, emit)
                return

    def _close(self) -> None:
        state, self._state = self._state, None
        if state is not None:
            state.close()


class SparkUpdateWork(_Updating):
    """Updates a state in Spark's checkpoint, and emits what changed.

    Attributes:
        keeps_answers: it keeps its rows where `QueryableWork` looks for answers.
    """

    stateful = True
    keeps_answers = True

    def __init__(
        self, state_fields: StateFields, updater: Any, inputs: tuple[str, ...], width: int
    ) -> None:
        super().__init__(updater, inputs, width)
        self.state_fields = state_fields

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        state = SparkMapState(context.state, self.state_fields, ANSWER)
        collector = self.update(state, batch)
        state.write()
        changes = [(*key, *value) for key, value in state.changes().items()]
        if changes:
            emit(list(map(list, zip(*changes, strict=True))), stream=CHANGES)
        self.emit(collector, emit)
