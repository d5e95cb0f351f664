"""Session windows: the tuples of a key that follow each other without a long pause.

Rule 1: a session ends a gap after its last tuple, in the tuples' own time. It is told when the
        watermark, the latest time seen less the lag, has passed that.
Rule 2: a tuple that comes out of order may lengthen a session or join two. One that would belong to
        a session that was told is late, and is dropped.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.flow.error import FlowError
from headrace.flow.plan.fields import Fields
from headrace.flow.runtime.tuple_batch import no_origin
from headrace.flow.runtime.work import Emit, Source, TaskContext, Work
from headrace.flow.trident.fold_work import BatchFoldWork
from headrace.flow.trident.operation import rows_of

_NEVER = -(2**62)
_Tuple = tuple[int, tuple[Any, ...]]


class SessionWork(Work):
    """Keeps the tuples of open sessions in the state, and folds them when they end.

    Emits the key, the session's first and last time, and what the fold makes of it.
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
        fields.check_known([self.timestamp], f"the sessions of {name}")
        kind = fields.schema.field(self.timestamp).type
        if not (pa.types.is_timestamp(kind) or pa.types.is_integer(kind)):
            raise FlowError(
                f"the sessions of {name} cannot take {self.timestamp} for their time: it is {kind},"
                " not a TIMESTAMP or a BIGINT of milliseconds"
            )

    def execute(
        self, batch: pa.RecordBatch, emit: Emit, context: TaskContext, source: Source
    ) -> None:
        state = context.state
        times = self._times(batch)
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
            told = _Told(emit, len(self.by))
            for session in self._ended(latest, state):
                told.first, told.last = session[0][0], session[-1][0]
                columns = zip(*(each for _, each in session), strict=True)
                kinds = zip(columns, batch.schema.types, strict=True)
                arrays = [pa.array(list(column), kind) for column, kind in kinds]
                whole = pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
                origin = no_origin(whole.num_rows)
                self.fold.execute(whole, told, context, replace(source, told_origin=origin))

    def _ended(self, watermark: int, state: Any) -> Iterator[list[_Tuple]]:
        """The sessions that are over; they are forgotten."""
        found = [
            (key, tuples)
            for key, tuples in state.items()
            if isinstance(key, tuple) and key[0] == "open"
        ]
        for place, tuples in found:
            left = list(tuples)
            for session in self._sessions(tuples):
                if session[-1][0] + self.gap_ms <= watermark:
                    yield session
                    left = left[len(session) :]
            if not left:
                state.delete(place)
            elif len(left) < len(tuples):
                state.put(place, left)

    def _sessions(self, tuples: list[_Tuple]) -> list[list[_Tuple]]:
        made: list[list[_Tuple]] = []
        for each in tuples:
            if made and each[0] - made[-1][-1][0] < self.gap_ms:
                made[-1].append(each)
            else:
                made.append([each])
        return made

    def _times(self, batch: pa.RecordBatch) -> "np.ndarray[Any, Any]":
        column = batch.column(self.timestamp)
        if column.null_count:
            raise ValueError(f"the timestamp {self.timestamp} is null")
        if pa.types.is_timestamp(column.type):
            column = pc.cast(column, pa.timestamp("ms", column.type.tz), safe=False)
        return np.asarray(column.cast(pa.int64()))


class _Told:
    """Puts a session's times behind its key, and keeps what is emitted from having rows of the
    batch that ended it."""

    def __init__(self, emit: Any, key_width: int) -> None:
        self._emit = emit
        self._key_width = key_width
        self.bury = emit.bury
        self.first = self.last = 0

    def __call__(self, columns: Any, **_: Any) -> None:
        made = list(columns)
        kind = pa.timestamp("us", "UTC")
        times = [pa.array([each * 1_000] * len(made[0]), kind) for each in (self.first, self.last)]
        self._emit([*made[: self._key_width], *times, *made[self._key_width :]])
