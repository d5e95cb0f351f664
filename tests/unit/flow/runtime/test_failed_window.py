"""Windows and sessions that raise, with more tuples than a batch of records has."""

from typing import Any

import pyarrow as pa

from headrace.flow.plan.window import CountWindow, TimeWindow, Window
from headrace.flow.plan.work import TaskContext, TupleSource, Work
from headrace.flow.runtime.builtin.window_work import CountWindowWork, TimeWindowWork
from headrace.flow.runtime.emission import Emission
from headrace.flow.runtime.task_state import TaskState
from headrace.flow.runtime.tuple_batch import TupleBatch, no_origin
from headrace.flow.trident.session_work import SessionWork

COUNT = 2_500
MILLISECOND = 1_000


class Raising(Work):
    def execute(self, *_: Any) -> None:
        raise RuntimeError("no")


def raising(*_: Any) -> None:
    raise RuntimeError("no")


def lost_numbers(work: Work, *batches: pa.RecordBatch) -> list[int]:
    """Return the numbers of the tuples that become dead letters."""
    state = TaskState(checkpointed=False)
    context = TaskContext(plan="p", component="c", task=0, tasks=1, state=state, retries=1)
    lost = []
    for batch in batches:
        tuples = TupleBatch(batch, no_origin(batch.num_rows))
        emission = Emission("c", {}, tuples)
        work.execute(batch, emission, context, TupleSource("lines", "default", tuples.lazy_origin))
        lost += [row["n"] for each, _ in emission.dead_letters for row in each.columns.to_pylist()]
    return lost


def tuples_at(times_us: list[int]) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "key": ["a"] * len(times_us),
            "n": list(range(len(times_us))),
            "at": pa.array(times_us, pa.timestamp("us", "UTC")),
        }
    )


FIRST = tuples_at([each * MILLISECOND for each in range(COUNT)])
LATER = tuples_at([3_600_000 * MILLISECOND])


def test_all_tuples_of_a_session_become_dead_letters() -> None:
    work = SessionWork(Raising(), ("key",), "at", gap_ms=1_000, lag_ms=0)

    assert lost_numbers(work, FIRST, LATER) == list(range(COUNT))


def test_all_tuples_of_a_window_of_time_become_dead_letters() -> None:
    work = TimeWindowWork(raising, TimeWindow(60, timestamp="at"))

    assert lost_numbers(work, FIRST, LATER) == list(range(COUNT))


def test_all_tuples_of_a_window_of_counts_become_dead_letters() -> None:
    work = CountWindowWork(raising, CountWindow(COUNT))

    assert lost_numbers(work, FIRST) == list(range(COUNT))


def test_a_tuple_of_many_windows_of_time_is_one_dead_letter() -> None:
    work = TimeWindowWork(raising, TimeWindow(2, slide_seconds=0.1, timestamp="at"))
    middle = FIRST.slice(0, 1_250), FIRST.slice(1_250)

    assert lost_numbers(work, *middle, LATER) == list(range(COUNT))


def test_a_tuple_of_many_windows_of_counts_is_one_dead_letter() -> None:
    work = CountWindowWork(raising, CountWindow(1_000, 10))
    middle = FIRST.slice(0, 1_250), FIRST.slice(1_250)

    assert lost_numbers(work, *middle) == list(range(COUNT))


def test_a_tuple_is_a_dead_letter_of_the_first_window_that_raises() -> None:
    calls: list[list[int]] = []

    def raises_later(window: Window, _: Any) -> None:
        numbers = window.tuples["n"].to_pylist()
        if numbers not in calls:
            calls.append(numbers)
        if len(calls) in (2, 3):
            raise RuntimeError("no")

    work = CountWindowWork(raises_later, CountWindow(4, 2))

    assert lost_numbers(work, FIRST.slice(0, 3), FIRST.slice(3, 5)) == [0, 1, 2, 3, 4, 5]
    assert calls == [[0, 1], [0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7]]
