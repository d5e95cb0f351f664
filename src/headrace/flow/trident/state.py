"""States outside of Spark that count every tuple once although Spark repeats batches.

Trident's rule: each value is stored with the id of the transaction that wrote it. A batch that a
crash interrupted is repeated with the same id.

    non-transactional   no ids: a repeated batch counts again
    transactional       the id beside the value: a repeated batch is skipped; right if it has the
                        same tuples as before
    opaque              the previous value too: a repeated batch replaces what it wrote before, with
                        the tuples that it has now
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from headrace.flow.error import FlowError, Unrecoverable
from headrace.flow.plan.fields import Fields

Key = tuple[Any, ...]


class Mode(Enum):
    """How a state treats a repeated batch; see above."""

    NON_TRANSACTIONAL = "non-transactional"
    TRANSACTIONAL = "transactional"
    OPAQUE = "opaque"

    @classmethod
    def of(cls, text: "str | Mode") -> "Mode":
        try:
            return cls(text)
        except ValueError:
            known = ", ".join(each.value for each in cls)
            raise FlowError(f"a state cannot be {text!r}: write {known}") from None


@dataclass(frozen=True, slots=True)
class StateEntry:
    """What a state keeps of a key.

    Attributes:
        txid: the transaction that wrote it.
        kept: what the aggregate needs to continue, encoded.
        before: `kept` of the transaction before, for an opaque state.
        output: the fields of the value, as queries see them.
    """

    txid: str
    kept: str
    before: str | None
    output: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class StateFields:
    """The fields of a state's keys and of its values."""

    key: Fields
    value: Fields

    @classmethod
    def split(cls, fields: Fields, key_width: int) -> "StateFields":
        """Return the fields of a fold's results, whose first fields are the key."""
        columns = [f"{each} {fields.ddl_of(each)}" for each in fields.names]
        return cls(
            Fields.parse(", ".join(columns[:key_width])),
            Fields.parse(", ".join(columns[key_width:])),
        )

    def answer_fields(
        self, fields: Fields, inputs: tuple[str, ...], output: tuple[str, ...] | None
    ) -> Fields:
        """Return the fields of tuples to which a query appends the value of their key.

        Args:
            fields: of the tuples before.
            inputs: those with the key.
            output: new names of the value's fields; None: their own.

        Raises:
            FlowError: the inputs are not the key, or names are missing.
        """
        if len(inputs) != len(self.key):
            raise FlowError(
                f"state_query asks by {', '.join(inputs)}, but the state has"
                f" {', '.join(self.key.names)}"
            )
        for mine, theirs in zip(inputs, self.key.names, strict=True):
            if fields.ddl_of(mine) != self.key.ddl_of(theirs):
                raise FlowError(
                    f"state_query asks with {mine} {fields.ddl_of(mine)}, but the state's"
                    f" {theirs} is {self.key.ddl_of(theirs)}"
                )
        value = self.value
        names = value.names if output is None else output
        if len(names) != len(value):
            raise FlowError(
                f"state_query renames {', '.join(value.names)} to {', '.join(names)}: write a name"
                " for each"
            )
        pairs = zip(names, value.names, strict=True)
        columns = [f"{new} {value.ddl_of(old)}" for new, old in pairs]
        return Fields.parse(", ".join([fields.ddl, *columns]))


class Backing:
    """Stores the entries of one task. Implement the three methods that raise here.

    Every `multi_get` and `multi_put` is called within a transaction.
    """

    def transaction(self) -> AbstractContextManager[None]:
        """Return a context that stores all that is put inside it when it ends, or nothing."""
        raise NotImplementedError

    def multi_get(self, keys: Sequence[Key]) -> list[StateEntry | None]:
        """Return the entry of each key; None for a key that has none."""
        raise NotImplementedError

    def multi_put(self, entries: Iterable[tuple[Key, StateEntry]]) -> None:
        """Store entries."""
        raise NotImplementedError

    def close(self) -> None:
        """Close connections and files; the runtime opens a new backing for the next batch."""


class State:
    """Base class of states of your own, made by `StateFactory.make_state`.

    A batch that did not end is repeated with the same `txid`, a text. What to do about it is up to
    the state: a transactional one remembers the last txid in the same transaction as its values,
    and passes over a batch with that txid.
    """

    def begin_commit(self, txid: str) -> None:
        """Begin the transaction of a batch, before its update."""

    def commit(self, txid: str) -> None:
        """End it: what was updated must be durable when this returns."""

    def close(self) -> None:
        """Close connections; the runtime makes a new state for the next batch.

        Called after an error too, instead of `commit`: what was begun must have no effect then.
        """


class StateFactory:
    """Opens states in the workers, to which Spark sends it pickled. Implement `open`, or
    `make_state` for a state of another kind, which only `partition_persist` can update.

    Attributes:
        mode: how it treats a repeated batch.
    """

    mode: Mode = Mode.OPAQUE

    def check_master(self, master: str) -> None:
        """Check that tasks on a Spark master reach the state, before anything starts.

        Raises:
            FlowError: it is on this machine, and the tasks would run on others.
        """

    def refused(self, column: pa.Array, *, key: bool) -> Iterable[tuple[str, pa.Array]]:
        """Return which values it cannot keep: reasons, each with a truth value per value.

        Their tuples become dead letters. A value that the database alone refuses fails its batch at
        every try.

        Args:
            key: whether the field is one of the key.
        """
        return ()

    def refused_keys(self, columns: Sequence[pa.Array]) -> Iterable[tuple[str, pa.Array]]:
        """Return which keys it cannot keep although it can keep each of their values.

        Args:
            columns: the fields of the keys.
        """
        return ()

    def open(self, state_fields: StateFields, task: int, tasks: int) -> Backing:
        """Return a backing for the keys of one task of `tasks`."""
        raise NotImplementedError

    def make_state(self, task: int, tasks: int) -> State:
        """Return the state of one task of `tasks`."""
        raise NotImplementedError

    def open_for_queries(self, state_fields: StateFields, tasks: int) -> Backing:
        """Return a backing that finds the keys of all tasks that write."""
        return self.open(state_fields, 0, 1)


def check_can_fold(
    state: Any, state_fields: StateFields | None
) -> tuple[StateFactory, StateFields]:
    """Return the state of a `persistent_aggregate` outside of Spark, and its fields.

    Raises:
        FlowError: it is no state, it cannot keep values by key, or there is no key.
    """
    if not isinstance(state, StateFactory):
        raise FlowError(
            f"{state!r} is no state: give a TopicState, SqliteState, PostgresState or ParquetState"
        )
    if type(state).open is StateFactory.open:
        raise FlowError(
            f"{type(state).__name__} has make_state and no open, so it cannot keep totals by key:"
            " write partition_persist"
        )
    if state_fields is None:
        raise FlowError(
            "a state outside of Spark has a key: write group_by first, or use a TopicState"
        )
    return state, state_fields


def kept_before(mode: Mode, entry: StateEntry | None, txid: str) -> tuple[str | None, bool]:
    """Return what a transaction continues from, and whether it is in the state already.

    Raises:
        Unrecoverable: a later transaction of the same query is in the state: the caller is a task
            that Spark has given up.
    """
    if entry is None:
        return None, False
    if mode is Mode.NON_TRANSACTIONAL:
        return entry.kept, False
    _check_not_older(entry.txid, txid)
    if entry.txid != txid:
        return entry.kept, False
    if mode is Mode.TRANSACTIONAL:
        return entry.kept, True
    return entry.before, False


def entry_after(
    mode: Mode, entry: StateEntry | None, txid: str, kept: str, output: tuple[Any, ...]
) -> StateEntry:
    """Return the entry that a transaction stores for a key."""
    if mode is not Mode.OPAQUE or entry is None:
        return StateEntry(txid, kept, None, output)
    return StateEntry(txid, kept, entry.before if entry.txid == txid else entry.kept, output)


def _check_not_older(stored: str, mine: str) -> None:
    query, _, number = stored.rpartition("/")
    my_query, _, my_number = mine.rpartition("/")
    if query == my_query and int(number) > int(my_number):
        raise Unrecoverable(
            f"batch {my_number} comes after batch {number} has written: another run of the same"
            " checkpoint is ahead"
        )


def current_txid() -> str:
    """Return the id of the transaction of this Spark task; a repeated task has the same.

    For a stream it is the query's id, which is in the checkpoint, and the batch's number. For a
    batch job it is the number of the job in its application.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise Unrecoverable("a state outside of Spark needs a task of Spark")
    query = context.getLocalProperty("sql.streaming.queryId")
    batch = context.getLocalProperty("streaming.sql.batchId")
    if query is not None and batch is not None:
        return f"{query}/{batch}"
    return f"job-{context.getLocalProperty('spark.sql.execution.id')}-{_application()}/0"


def _application() -> str:
    from pyspark import SparkFiles

    return SparkFiles.getRootDirectory().rpartition("/")[2]
