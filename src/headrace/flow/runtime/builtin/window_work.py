"""Windows of one task, on its state.

Rule 1: a window that raises is tried again. Then its tuples become dead letters, and the stream
        goes on. A tuple of several windows that raise becomes one dead letter: the first time.
Rule 2: a window of time closes when the watermark passes its end. The watermark is the least, over
        all inputs, of the latest timestamp seen, less the lag; without a timestamp field it is the
        clock. It never goes back.
Rule 3: a tuple below the watermark of the earlier batches is late. Tuples of its own batch do not
        move that watermark, so it does not matter how Spark divides a batch. A tuple without a time
        becomes a dead letter.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.flow.error import Unrecoverable
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.window import CountWindow, TimeWindow, Window
from headrace.flow.plan.work import Emit, TaskContext, TupleSource, Work
from headrace.flow.runtime.builtin.event_time import (
    check_timestamp,
    event_times_ms,
    timed_rows,
)
from headrace.flow.runtime.builtin.window_pieces import WindowPieces
from headrace.flow.runtime.tuple_batch import TupleBatch

_NEVER = -(2**62)
_GIVEN_UP = "given up"
"""The key of the end of the last window that raised: its tuples before that are dead letters."""

OnWindow = Callable[[Window, Emit], None]


class _HeldEmits:
    """Keeps what a window emits until the call has returned."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, dict[str, Any]]] = []

    def __call__(self, columns: Any, **options: Any) -> None:
        # The rows of a window are not rows of the batch that closed it.
        self.calls.append((columns, {**options, "rows": None}))


class WindowWork(Work):
    """Calls `on_window`, a function or an object with `execute`, for each window that closes.

    `on_window` may have `prepare` and `cleanup` as well.
    """

    stateful = True

    def __init__(self, on_window: Any) -> None:
        self.on_window = on_window

    def prepare(self, context: TaskContext) -> None:
        getattr(self.on_window, "prepare", _nothing)(context)

    def cleanup(self) -> None:
        getattr(self.on_window, "cleanup", _nothing)()

    def _fire(
        self,
        window: Window,
        end: int,
        whole: TupleBatch,
        positions: npt.NDArray[np.int64],
        emit: Any,
        context: TaskContext,
    ) -> None:
        """Call the bolt, or give up the window's tuples; see rule 1.

        Args:
            end: the time or the number that the window ends before.
            positions: the time or the number of each tuple, in order.
        """
        call: OnWindow = getattr(self.on_window, "execute", self.on_window)
        failure: Exception | None = None
        for _ in range(1 + context.retries):
            held = _HeldEmits()
            try:
                call(window, held)
            except Unrecoverable:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a user's bolt raises
                failure = error
            else:
                for columns, options in held.calls:
                    emit(columns, **options)
                return
        assert failure is not None
        given_up = int(np.searchsorted(positions, context.state.get(_GIVEN_UP, _NEVER)))
        emit.dead_letter(whole.slice(given_up, whole.num_rows - given_up), failure)
        context.state.put(_GIVEN_UP, end)


class CountWindowWork(WindowWork):
    """Calls the bolt every so many tuples."""

    def __init__(self, on_window: Any, window: CountWindow) -> None:
        super().__init__(on_window)
        self.window = window

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        length, step = self.window.length, self.window.step
        pieces = WindowPieces(context.state)
        before = context.state.get("arrived", 0)
        arrived = before + batch.num_rows
        pieces.add(TupleBatch(batch, source.origin), arrived - 1)
        context.state.put("arrived", arrived)
        ends = range((before // step + 1) * step, arrived + 1, step)
        if ends:
            whole = pieces.load()
            assert whole is not None
            first = arrived - whole.num_rows
            for end in ends:
                start = max(first, end - length)
                part = whole.slice(start - first, end - start)
                new = part.columns.slice(max(0, part.num_rows - step))
                numbers = np.arange(start, end)
                self._fire(Window(part.columns, new), end, part, numbers, emit, context)
        pieces.drop_before((arrived // step + 1) * step - length)


class TimeWindowWork(WindowWork):
    """Calls the bolt for each stretch of time that has passed."""

    def __init__(self, on_window: Any, window: TimeWindow) -> None:
        super().__init__(on_window)
        self.window = window

    def check_fields(self, fields: Fields, name: str) -> None:
        """Refuse a stream whose timestamp field is missing or no time."""
        if self.window.timestamp is not None:
            check_timestamp(fields, self.window.timestamp, f"the window of {name}")

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        rows = self._timed(batch, emit, source)
        if not len(rows):
            return
        timed = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
        times = self._times(timed, context)
        watermark = context.state.get("watermark", _NEVER)
        on_time = times >= watermark
        if not on_time.all():
            self._emit_late(batch, rows[~on_time], emit)
        if on_time.any():
            kept = TupleBatch(batch, source.origin).take(pa.array(rows[on_time]))
            WindowPieces(context.state).add(kept, int(times[on_time].max()))
        self._advance(self._watermark(context, source, int(times.max())), emit, context)

    def tick(self, now_ms: int, emit: Emit, context: TaskContext) -> None:
        if self.window.timestamp is None:
            self._advance(now_ms, emit, context)

    def _timed(
        self, batch: pa.RecordBatch, emit: Emit, source: TupleSource
    ) -> npt.NDArray[np.int64]:
        if self.window.timestamp is None:
            return np.arange(batch.num_rows)
        return timed_rows(batch, self.window.timestamp, emit, source)

    def _times(self, batch: pa.RecordBatch, context: TaskContext) -> npt.NDArray[np.int64]:
        if self.window.timestamp is None:
            return np.full(batch.num_rows, context.now_ms, dtype=np.int64)
        return event_times_ms(batch, self.window.timestamp)

    def _emit_late(self, batch: pa.RecordBatch, rows: npt.NDArray[np.int64], emit: Emit) -> None:
        if self.window.late is not None:
            emit(batch.take(pa.array(rows)), stream=self.window.late, rows=rows)

    def _watermark(self, context: TaskContext, source: TupleSource, latest: int) -> int:
        """Return the watermark after a batch of a source."""
        if self.window.timestamp is None:
            return context.now_ms
        seen: dict[Any, int] = dict(context.state.get("seen", {}))
        name = source.component, source.stream
        seen[name] = max(latest, seen.get(name, _NEVER))
        context.state.put("seen", seen)
        return min(seen.get(each, _NEVER) for each in (context.inputs or (name,))) - (
            self.window.lag_ms
        )

    def _advance(self, watermark: int, emit: Emit, context: TaskContext) -> None:
        before = context.state.get("watermark", _NEVER)
        if watermark <= before:
            return
        context.state.put("watermark", watermark)
        pieces = WindowPieces(context.state)
        whole = pieces.load()
        if whole is None:
            return
        # Without a timestamp field a piece has one time for all its tuples.
        timed = self.window.timestamp is not None
        times = self._times(whole.columns, context) if timed else pieces.lasts()
        order = np.argsort(times, kind="stable")
        whole, times = whole.take(pa.array(order)), times[order]
        for start, first, after in self._closed(times, before, watermark):
            part = whole.slice(first, after - first)
            end = start + self.window.length_ms
            new = int(np.searchsorted(times[first:after], end - self.window.step_ms))
            window = Window(part.columns, part.columns.slice(new), start, end)
            self._fire(window, end, part, times[first:after], emit, context)
        step = self.window.step_ms
        pieces.drop_before((watermark // step + 1) * step - self.window.length_ms)

    def _closed(
        self, times: npt.NDArray[np.int64], before: int, watermark: int
    ) -> Iterator[tuple[int, int, int]]:
        """Yield start, first row and row after the last of each window with tuples that ends after
        `before` and not after `watermark`."""
        length, step = self.window.length_ms, self.window.step_ms
        end = (max(before, int(times[0])) // step + 1) * step
        while end <= watermark:
            first, after = np.searchsorted(times, [end - length, end])
            if first == after:
                if after == len(times):
                    return
                # No tuples for a while: go on with the first window of the next tuple.
                end = max(end + step, (int(times[after]) // step + 1) * step)
                continue
            yield end - length, int(first), int(after)
            end += step


def _nothing(*_: Any) -> None:
    """Do nothing, in place of a method that a bolt does not have."""
