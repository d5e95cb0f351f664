"""A Python spout, called as Spark's questions for offsets make it be called."""

import sqlite3
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from headrace.flow.error import FlowError
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.work import TaskContext
from headrace.flow.runtime.spout_offset import MessageId, SpoutOffset
from headrace.flow.runtime.spout_source import SpoutReader, TuplePartition, spout_source
from headrace.flow.runtime.spout_task import NUMBER, SpoutLimits, SpoutTask, SpoutTaskSpec

FIELDS = Fields.parse("word STRING")
START = SpoutOffset("words")


class Words:
    """Emits words, one per call, each with its position as its id."""

    def __init__(self, *words: Any) -> None:
        self.waiting = list(enumerate(words))
        self.calls: list[Any] = []

    def open(self, context: TaskContext) -> None:
        self.calls.append(("open", context.component))

    def next_tuple(self, emit: Any) -> None:
        if self.waiting:
            number, word = self.waiting.pop(0)
            emit([word], message_id=number)

    def ack(self, message_id: Any) -> None:
        self.calls.append(("ack", message_id))

    def fail(self, message_id: Any) -> None:
        self.calls.append(("fail", message_id))

    def activate(self) -> None:
        self.calls.append("activate")

    def deactivate(self) -> None:
        self.calls.append("deactivate")

    def close(self) -> None:
        self.calls.append("close")


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def task_of(spout: Any, clock: Callable[[], float] | None = None, **limits: Any) -> SpoutTask:
    context = TaskContext("plan", "words", task=0, tasks=1)
    return SpoutTask(spout, context, FIELDS, SpoutLimits(**limits), clock=clock or Clock())


def batch_after(task: SpoutTask, start: SpoutOffset) -> SpoutOffset:
    end = task.next_batch(start)
    assert end is not None
    return end


def words_in(task: SpoutTask, start: SpoutOffset, end: SpoutOffset) -> list[str]:
    batch = task.tuples(start.emitted, end.emitted)
    assert batch is not None
    assert batch.column(NUMBER).to_pylist() == list(range(start.emitted, end.emitted))
    words: list[str] = batch.column("word").to_pylist()
    return words


def test_a_batch_is_acked_when_the_next_one_is_asked_for() -> None:
    spout = Words("a", "b", "c")
    task = task_of(spout, max_pending=2)
    first = batch_after(task, START)
    assert (first.emitted, first.ids) == (2, (0, 1))
    assert words_in(task, START, first) == ["a", "b"]
    assert spout.calls == [("open", "words"), "activate"]

    second = batch_after(task, first)
    assert words_in(task, first, second) == ["c"]
    assert spout.calls[2:] == [("ack", 0), ("ack", 1)]

    assert task.next_batch(second) is None
    assert task.next_batch(second) is None
    assert spout.calls[4:] == [("ack", 2)]


def test_a_question_that_comes_again_gets_the_same_batch() -> None:
    task = task_of(Words("a", "b"), max_pending=1)
    assert task.next_batch(START) == task.next_batch(START)


def test_another_process_acks_what_the_checkpoint_says_is_done() -> None:
    spout = Words()
    offset = SpoutOffset.from_json(SpoutOffset("words", 2, ("x", (0, 7))).to_json())
    assert task_of(spout).next_batch(offset) is None
    assert spout.calls == [("open", "words"), "activate", ("ack", "x"), ("ack", (0, 7))]


def test_ids_of_an_unfinished_batch_are_failed_before_anything_is_emitted() -> None:
    spout = Words("a")
    task = task_of(spout)
    task.failed = (5, 6)
    batch_after(task, START)
    assert spout.calls == [("open", "words"), ("fail", 5), ("fail", 6), "activate"]


def test_the_tuples_of_another_process_are_not_made_up() -> None:
    task = task_of(Words("a"))
    assert task.tuples(4, 4) is None
    with pytest.raises(FlowError, match="tuples 0 to 4 of the spout words are gone"):
        task.tuples(0, 4)


def test_a_batch_ends_when_it_has_enough_bytes() -> None:
    task = task_of(Words("x" * 1_000, "y" * 1_000, "z"), max_batch_bytes=1_500)
    end = batch_after(task, START)
    assert [word[0] for word in words_in(task, START, end)] == ["x", "y"]


def test_a_batch_ends_after_a_tenth_of_a_second() -> None:
    clock = Clock()

    class Slow(Words):
        def next_tuple(self, emit: Any) -> None:
            clock.now += 0.06
            super().next_tuple(emit)

    assert batch_after(task_of(Slow("a", "b", "c"), clock), START).emitted == 2


def test_a_batch_that_takes_too_long_is_failed_and_not_acked() -> None:
    clock, spout = Clock(), Words("a")
    task = task_of(spout, clock, message_timeout_seconds=30.0)
    end = batch_after(task, START)
    clock.now = 29
    task.expire()
    assert ("fail", 0) not in spout.calls
    clock.now = 30
    task.expire()
    task.expire()
    assert task.next_batch(end) is None
    assert spout.calls[2:] == [("fail", 0)]


def test_tuples_without_an_id_are_neither_acked_nor_failed() -> None:
    class Untracked(Words):
        def next_tuple(self, emit: Any) -> None:
            if self.waiting:
                emit((self.waiting.pop()[1],))

    spout = Untracked("a")
    task = task_of(spout)
    end = batch_after(task, START)
    assert end.ids == ()
    assert task.next_batch(end) is None
    task.close()
    task.close()
    assert spout.calls == [("open", "words"), "activate", "deactivate", "close"]


@pytest.mark.parametrize(
    ("emitted", "message"),
    [
        ("word", "declares 'word STRING' and emitted 'word': emit a tuple"),
        (("a", "b"), r"declares 'word STRING' and emitted 2 values: \('a', 'b'\)"),
        ((7,), r"declares 'word STRING' and emitted \(7,\); word does not fit"),
        (("x" * (65 << 20),), "more than 64 MiB in one batch"),
    ],
)
def test_what_is_no_tuple_is_named(emitted: Any, message: str) -> None:
    class Wrong(Words):
        def next_tuple(self, emit: Any) -> None:
            emit(("good",)) if self.waiting else emit(emitted)
            self.waiting.clear()

    with pytest.raises(FlowError, match=f"the spout words .*{message}|{message}"):
        task_of(Wrong("a")).next_batch(START)


def test_an_id_that_json_cannot_hold_is_refused() -> None:
    class Wrong(Words):
        def next_tuple(self, emit: Any) -> None:
            emit(("a",), message_id=object())

    with pytest.raises(FlowError, match="an id is a text, an integer or a tuple of these"):
        task_of(Wrong()).next_batch(START)


def test_what_a_spout_raises_names_the_component() -> None:
    class Broken(Words):
        def next_tuple(self, emit: Any) -> None:
            raise OSError("the queue is gone")

    with pytest.raises(OSError, match="the queue is gone") as raised:
        task_of(Broken()).next_batch(START)
    assert "in the component words" in "".join(traceback.format_exception(raised.value))


class Table:
    """Keeps a connection that only the thread that made it may use."""

    def open(self, context: TaskContext) -> None:
        self.table = sqlite3.connect(":memory:")
        self.table.execute("CREATE TABLE word (word TEXT, state TEXT)")
        self.table.executemany("INSERT INTO word VALUES (?, 'new')", [(each,) for each in "abcde"])

    def next_tuple(self, emit: Any) -> None:
        for (word,) in self.table.execute("SELECT word FROM word WHERE state = 'new'").fetchall():
            emit((word,), message_id=word)
            self.table.execute("UPDATE word SET state = 'sent' WHERE word = ?", (word,))

    def ack(self, message_id: MessageId) -> None:
        self.table.execute("DELETE FROM word WHERE word = ?", (message_id,))

    def fail(self, message_id: MessageId) -> None:
        self.table.execute("UPDATE word SET state = 'new' WHERE word = ?", (message_id,))

    def activate(self) -> None: ...

    def deactivate(self) -> None: ...

    def close(self) -> None:
        self.table.close()


def reader_of(spout: Any, **limits: Any) -> SpoutReader:
    place = SpoutTaskSpec(
        TaskContext("plan", "words", task=0, tasks=1), FIELDS, SpoutLimits(**limits), tasks=2
    )
    source = spout_source("label", spout, place, iter, "word STRING")
    return SpoutReader(source.spout, place, iter)


def test_the_reader_divides_a_batch_and_calls_the_spout_in_one_thread() -> None:
    reader = reader_of(Table(), message_timeout_seconds=60.0)
    limit = reader.getDefaultReadLimit()
    start = reader.initialOffset()
    end = reader.latestOffset(start, limit)
    parts = reader.partitions(start, end)
    assert [isinstance(each, TuplePartition) for each in parts] == [True, True]
    read = [[row["word"] for each in reader.read(one) for row in each.to_pylist()] for one in parts]
    assert read == [["a", "b", "c"], ["d", "e"]]
    assert reader.partitions(end, end) == []
    assert reader.latestOffset(end, limit) is end
    reader.stop()


def test_available_now_ends_with_the_first_silence() -> None:
    reader = reader_of(Words("a"))
    reader.prepareForTriggerAvailableNow()
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(reader.initialOffset(), limit)
    assert reader.latestOffset(end, limit) is end
    task = reader._task
    assert task is not None
    assert isinstance(task.spout, Words)
    task.spout.waiting.append((1, "later"))
    assert reader.latestOffset(end, limit) is end
    reader.stop()
