"""Session windows: the tuples of a key that follow each other without a long pause.

Rule 1: a session ends a gap after its last tuple, in the tuples' own time. It is emitted when the
        watermark, the latest time seen less the lag, has passed its end.
Rule 2: a tuple that comes out of order may lengthen a session or join two. A tuple of a session
        that was emitted already is late, and is dropped. A tuple without a time becomes a dead
        letter.
Rule 3: a session whose fold raises is tried again. Then its tuples become dead letters, and the
        stream goes on.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from headrace.flow.error import FlowError, Unrecoverable
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.work import Emit, TaskContext, TupleSource, Work
from headrace.flow.runtime.builtin.event_time import (
    check_timestamp,
    event_times_ms,
    timed_rows,
)
from headrace.flow.runtime.tuple_batch import TupleBatch, no_origin
from headrace.flow.runtime.tuple_value import rows_of
from headrace.flow.trident.fold_work import BatchFoldWork
from headrace.flow.trident.state import StateFields

_NEVER = -(2**62)
_Tuple = tuple[int, tuple[Any, ...]]


class SessionWork(Work):
    """Keeps the tuples of open sessions in the state, and folds a session when it ends.

    Emits the key, the session's first and last time, and the result of the fold.
    """

    stateful = True

    def __init__(
        self, fold: Work, by: tuple[str, ...], timestamp: str, *, gap_ms: int, lag_ms: int
    ) -> None:
        if gap_ms < 1 or lag_ms < 0:
            raise FlowError("a session's gap is a millisecond or longer, its lag none or longer")
        self.fold = BatchFoldWork(fold)
        self.by = by
        self.timestamp = timestamp
        self.gap_ms = gap_ms
        self.lag_ms = lag_ms

    def check_fields(self, fields: Fields, name: str) -> None:
        """Refuse a stream whose timestamp field is missing or no time."""
        check_timestamp(fields, self.timestamp, f"the sessions of {name}")

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: TupleSource
    ) -> None:
        state = context.state
        timed = timed_rows(batch, self.timestamp, emit, source)
        if not len(timed):
            return
        if len(timed) < batch.num_rows:
            batch = batch.take(pa.array(timed))
        times = event_times_ms(batch, self.timestamp)
        watermark = state.get("watermark", _NEVER)
        values = list(rows_of(batch, tuple(batch.schema.names)))
        rows: dict[Any, list[int]] = {}
        for row, key in enumerate(rows_of(batch, self.by)):
            if times[row] + self.gap_ms > watermark:
                rows.setdefault(key, []).append(row)
        for key, mine in rows.items():
            kept = state.get(("open", key), [])
            fresh = [(int(times[row]), values[row]) for row in mine]
            state.put(("open", key), sorted([*kept, *fresh], key=lambda each: each[0]))
        latest = max(watermark, int(times.max()) - self.lag_ms)
        if latest > watermark:
            state.put("watermark", latest)
            for session in self._ended(latest, state):
                columns = zip(*(each for _, each in session), strict=True)
                kinds = zip(columns, batch.schema.types, strict=True)
                arrays = [pa.array(list(column), kind) for column, kind in kinds]
                whole = pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
                times_ms = session[0][0], session[-1][0]
                self._emit_session(whole, times_ms, emit, context, source)

    def _emit_session(
        self,
        whole: pa.RecordBatch,
        times_ms: tuple[int, int],
        emit: Any,
        context: TaskContext,
        source: TupleSource,
    ) -> None:
        """Fold the tuples of a session that has ended; see rule 3."""
        here = replace(source, lazy_origin=no_origin(whole.num_rows))
        failure: Exception | None = None
        for _ in range(1 + context.retries):
            held = _HeldSession(times_ms, len(self.by))
            try:
                self.fold.execute(whole, held, context, here)
            except Unrecoverable:
                raise
            except Exception as error:  # noqa: BLE001 - whatever a user's aggregator raises
                failure = error
            else:
                held.emit(emit)
                return
        assert failure is not None
        emit.dead_letter(TupleBatch(whole, no_origin(whole.num_rows)), failure)

    def _ended(self, watermark: int, state: Any) -> Iterator[list[_Tuple]]:
        """Yield the sessions that have ended, and remove them from the state."""
        open_tuples = [
            (key, state.get(key))
            for key in state.keys()  # noqa: SIM118 - a state is no dictionary
            if isinstance(key, tuple) and key[0] == "open"
        ]
        for state_key, tuples in open_tuples:
            left = list(tuples)
            for session in self._sessions(tuples):
                if session[-1][0] + self.gap_ms <= watermark:
                    yield session
                    left = left[len(session) :]
            if not left:
                state.delete(state_key)
            elif len(left) < len(tuples):
                state.put(state_key, left)

    def _sessions(self, tuples: list[_Tuple]) -> list[list[_Tuple]]:
        sessions: list[list[_Tuple]] = []
        for each in tuples:
            if sessions and each[0] - sessions[-1][-1][0] < self.gap_ms:
                sessions[-1].append(each)
            else:
                sessions.append([each])
        return sessions


def session_fields(folded: Fields, key_width: int) -> Fields:
    """Return the fields of a session: the key, its first and last time, the fold's results."""
    parts = StateFields.split(folded, key_width)
    times = "session_start TIMESTAMP, session_end TIMESTAMP"
    return Fields.parse(f"{parts.key.ddl}, {times}, {parts.value.ddl}")


class _HeldSession:
    """Keeps what the fold of a session emits until it has returned, with its times behind the key.

    The result has no rows: the session's tuples are not those of the batch that ended it.
    """

    def __init__(self, times_ms: tuple[int, int], key_width: int) -> None:
        self._times_ms = times_ms
        self._key_width = key_width
        self._results: list[list[Any]] = []
        self._dead_letters: list[tuple[TupleBatch, Exception]] = []

    def __call__(self, columns: Any, **_: Any) -> None:
        result = list(columns)
        kind, rows = pa.timestamp("us", "UTC"), len(result[0])
        times = [pa.array([each * 1_000] * rows, kind) for each in self._times_ms]
        self._results.append([*result[: self._key_width], *times, *result[self._key_width :]])

    def dead_letter(self, tuples: TupleBatch, failure: Exception) -> None:
        self._dead_letters.append((tuples, failure))

    def emit(self, emit: Any) -> None:
        for tuples, failure in self._dead_letters:
            emit.dead_letter(tuples, failure)
        for columns in self._results:
            emit(columns)
