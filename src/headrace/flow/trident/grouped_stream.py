"""A stream grouped by some fields: aggregates have a result for each group."""

from typing import TYPE_CHECKING, Any

from headrace.flow.error import FlowError
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.grouping import FieldsGrouping
from headrace.flow.plan.window import CountWindow
from headrace.flow.trident.aggregator import AnyAggregator
from headrace.flow.trident.fold_work import BatchFoldWork
from headrace.flow.trident.session_work import SessionWork
from headrace.flow.trident.stream import Names, Stream
from headrace.flow.trident.window_fold import WindowSpec

if TYPE_CHECKING:
    from headrace.flow.trident.trident_state import TridentState


class GroupedStream:
    """Made by `Stream.group_by`. The tuples of a key are carried to one task."""

    def __init__(self, stream: Stream, by: tuple[str, ...]) -> None:
        self._stream = stream
        self._by = by
        if not by:
            raise FlowError("group_by needs the names of the fields to group by")

    def aggregate(
        self,
        aggregator: AnyAggregator | None = None,
        inputs: Names = (),
        output: str | None = None,
        **measures: str,
    ) -> Stream:
        """What each batch has of each group: its key, and what the aggregator makes of it."""
        fold, made = self._stream.folding(aggregator, self._by, inputs, output, measures)
        return self._stream._next("aggregate", BatchFoldWork(fold), made, self._grouping)

    def persistent_aggregate(
        self,
        state: Any,
        aggregator: AnyAggregator | None = None,
        inputs: Names = (),
        output: str | None = None,
        **measures: str,
    ) -> "TridentState":
        """Totals of each group, for ever, in a state: `TopicState`, `SqliteState`,
        `PostgresState`, `ParquetState`. A combiner, a reducer, or measures."""
        from headrace.flow.trident.trident_state import persist

        return persist(self._stream, self._by, state, aggregator, inputs, output, measures)

    def window(
        self,
        window: WindowSpec,
        aggregator: AnyAggregator | None = None,
        inputs: Names = (),
        output: str | None = None,
        **measures: str,
    ) -> Stream:
        """What each window of time has of each group."""
        if isinstance(window, CountWindow):
            raise FlowError(
                "a window of so many tuples is one of a whole stream: leave group_by out, or use a"
                " TimeWindow"
            )
        how = self._grouping
        return self._stream._windowed(self._by, window, aggregator, inputs, output, measures, how)

    def session_window(
        self,
        gap_seconds: float,
        timestamp: str,
        aggregator: AnyAggregator | None = None,
        inputs: Names = (),
        output: str | None = None,
        *,
        lag_seconds: float = 0.0,
        **measures: str,
    ) -> Stream:
        """Each group's tuples that follow each other without a pause of `gap_seconds`.

        Args:
            timestamp: the field with a tuple's time.
            lag_seconds: how long to wait for tuples that come out of order.

        Gives the key, `session_start`, `session_end` (its first and last time) and the aggregate.
        """
        fold, made = self._stream.folding(aggregator, self._by, inputs, output, measures)
        columns = [f"{each} {made.ddl_of(each)}" for each in made.names]
        times = ["session_start TIMESTAMP", "session_end TIMESTAMP"]
        width = len(self._by)
        fields = Fields.parse(", ".join([*columns[:width], *times, *columns[width:]]))
        work = SessionWork(
            fold,
            self._by,
            timestamp,
            gap_ms=round(gap_seconds * 1_000),
            lag_ms=round(lag_seconds * 1_000),
        )
        work.check_fields(self._stream.fields, "session_window")
        return self._stream._next("session", work, fields, self._grouping, stateful=True)

    @property
    def _grouping(self) -> FieldsGrouping:
        return FieldsGrouping(self._by)
