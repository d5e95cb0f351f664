"""States outside of Spark that count once although batches are done again.

Trident's rule: beside each value lies the id of the transaction that made it. A batch that was cut
off and is done again has the id that it had.

    non-transactional   no ids: what is done again counts again
    transactional       the id beside the value: a batch that has been there is passed over; right
                        if a batch that is done again has the same tuples
    opaque              the value before, too: a batch that has been there is undone and done again,
                        with whatever tuples it has now
"""

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Any

from headrace.flow.error import FlowError, Unrecoverable
from headrace.flow.plan.fields import Fields

Key = tuple[Any, ...]


class Mode(Enum):
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
class Entry:
    """What is kept of a key.

    Attributes:
        kept: what the aggregate needs to go on, encoded.
        before: the same of the transaction before, for an opaque state.
        output: the fields of the value, as they are shown.
    """

    txid: str
    kept: str
    before: str | None
    output: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """The fields of a state's keys and of its values."""

    key: Fields
    value: Fields


class Backing:
    """Where entries lie, for one task. Implement the three; each call is within a transaction."""

    def transaction(self) -> AbstractContextManager[None]:
        """All that is put inside of it is there when it ends, or none of it."""
        raise NotImplementedError

    def multi_get(self, keys: Sequence[Key]) -> list[Entry | None]:
        raise NotImplementedError

    def multi_put(self, entries: Iterable[tuple[Key, Entry]]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Let go; the next call opens it again."""


class StateFactory:
    """Makes backings in the workers; it travels pickled. Implement `open`.

    Attributes:
        mode: how it keeps from counting twice.
    """

    mode: Mode = Mode.OPAQUE

    def open(self, shape: Shape, task: int, tasks: int) -> Backing:
        """A backing for the keys of one task of `tasks`."""
        raise NotImplementedError

    def open_for_queries(self, shape: Shape, tasks: int) -> Backing:
        """A backing that finds every key, of all tasks that write."""
        return self.open(shape, 0, 1)


def before(mode: Mode, entry: Entry | None, txid: str) -> tuple[str | None, bool]:
    """What a transaction begins with, and whether it has been here and is not to be done again.

    Raises:
        Unrecoverable: a later transaction of the same query has been here: the caller is a task
            that should be dead.
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


def after(mode: Mode, entry: Entry | None, txid: str, kept: str, output: tuple[Any, ...]) -> Entry:
    """What a transaction leaves of a key."""
    if mode is not Mode.OPAQUE or entry is None:
        return Entry(txid, kept, None, output)
    return Entry(txid, kept, entry.before if entry.txid == txid else entry.kept, output)


def _check_not_older(stored: str, mine: str) -> None:
    query, _, number = stored.rpartition("/")
    my_query, _, my_number = mine.rpartition("/")
    if query == my_query and int(number) > int(my_number):
        raise Unrecoverable(
            f"batch {my_number} comes after batch {number} has written: another run of the same"
            " checkpoint is ahead"
        )


def current_txid() -> str:
    """The id of the transaction that this Spark task belongs to: the same when it is done again.

    A stream's is its query's, which lives in the checkpoint, and the batch's number; that of a
    batch job is the number of the job in its application.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    if context is None:
        raise Unrecoverable("a state outside of Spark needs a task of Spark")
    query = context.getLocalProperty("sql.streaming.queryId")
    batch = context.getLocalProperty("streaming.sql.batchId")
    if query is not None and batch is not None:
        return f"{query}/{batch}"
    return f"job-{context.getLocalProperty('spark.sql.execution.id')}-{_started()}/0"


def _started() -> str:
    from pyspark import SparkFiles

    return SparkFiles.getRootDirectory().rpartition("/")[2]
