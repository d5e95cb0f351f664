"""The streams of a chain. Every method adds an operation and returns the stream behind it.

`Stream`, `GroupedStream` and `TridentState` return each other, so they are one file.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from headrace.flow.error import FlowError
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.grouping import (
    All,
    Custom,
    FieldsGrouping,
    Global,
    Grouping,
    Shuffle,
    TaskChoice,
)
from headrace.flow.plan.plan import DEFAULT_STREAM, Input, Kind
from headrace.flow.plan.work import Work
from headrace.flow.runtime.builtin.each_work import EachWork
from headrace.flow.storm.sink import TopicSink
from headrace.flow.trident.aggregator import AnyAggregator, check_can_persist
from headrace.flow.trident.chain_components import ChainComponents
from headrace.flow.trident.fold import fold_of
from headrace.flow.trident.fold_work import BatchFoldWork, QueryableWork
from headrace.flow.trident.operation import (
    ExtremeWork,
    FilterWork,
    Function,
    Names,
    PeekWork,
    ProjectWork,
    evenly,
    names_of,
)
from headrace.flow.trident.partition_persist import partition_grouping, persist_parts
from headrace.flow.trident.persist_work import PersistWork, QueryWork
from headrace.flow.trident.session_work import SessionWork, session_fields
from headrace.flow.trident.state import StateFactory, StateFields, check_can_fold
from headrace.flow.trident.topic_state import StateSink, TopicState
from headrace.flow.trident.update_work import CHANGES
from headrace.flow.trident.window_fold import WindowSpec, window_work


class Stream:
    """Tuples of a chain. Made by `TridentTopology`; never changed, so that several chains can begin
    with one stream.

    Attributes:
        components: the chain's, to which operations are added.
        source: the component, and the stream of it, that this stands for.
        segment: the operations since the tuples were last carried to tasks; empty right behind a
            spout, where a batch comes in pieces.
    """

    def __init__(
        self,
        components: ChainComponents,
        source: tuple[str, str],
        fields: Fields,
        segment: tuple[str, ...] = (),
        grouping: Grouping | None = None,
    ) -> None:
        self.components = components
        self.source = source
        self.fields = fields
        self.segment = segment
        self._grouping = grouping

    # Tuple by tuple.

    def each(self, inputs: Names, function: Function, output: str | None = None) -> "Stream":
        """Call a function with some fields.

        With `output`, what it returns (a value, a tuple, a list of these, or None) is appended to
        the tuple. Without, only tuples for which it returns true stay.
        """
        names = self._known(inputs, "each")
        if output is None:
            return self._next("filter", FilterWork(function, names), self.fields)
        new = Fields.parse(output)
        for name in new.names:
            if name in self.fields.names:
                raise FlowError(f"each cannot append {name!r}: the tuple has such a field already")
        work = EachWork(function, inputs=names, kept=self.fields.names, width=len(new))
        return self._next("each", work, Fields.parse(f"{self.fields.ddl}, {new.ddl}"))

    def filter(self, function: Function, inputs: Names | None = None) -> "Stream":
        """Keep the tuples for which a function of these fields, or of all, returns true."""
        names = self.fields.names if inputs is None else self._known(inputs, "filter")
        return self._next("filter", FilterWork(function, names), self.fields)

    def map(self, function: Function, output: str) -> "Stream":
        """Replace each tuple by the one that a function of all its fields returns."""
        return self._replaced("map", function, output)

    def flat_map(self, function: Function, output: str) -> "Stream":
        """Replace each tuple by the list of tuples that a function of all its fields returns."""
        return self._replaced("flat-map", function, output)

    def peek(self, function: Function) -> "Stream":
        """Call a function with each tuple, for its side effects."""
        return self._next("peek", PeekWork(function), self.fields)

    def project(self, *names: str) -> "Stream":
        """Keep only these fields."""
        kept = self._known(names, "project")
        columns = ", ".join(f"{each} {self.fields.ddl_of(each)}" for each in kept)
        return self._next("project", ProjectWork(kept), Fields.parse(columns))

    # To which tasks.

    def shuffle(self) -> "Stream":
        """Divide tuples evenly between the tasks of the next operation."""
        return self._carried(Custom(evenly))

    def partition_by(self, *names: str) -> "Stream":
        """Send tuples with the same values of these fields to the same task."""
        return self._carried(FieldsGrouping(self._known(names, "partition_by")))

    def broadcast(self) -> "Stream":
        """Send every tuple to all tasks."""
        return self._carried(All())

    def global_(self) -> "Stream":
        """Send every tuple to one task."""
        return self._carried(Global())

    def batch_global(self) -> "Stream":
        """Send every batch to one task; here it is always the same one."""
        return self._carried(Global())

    def partition(self, choose: TaskChoice) -> "Stream":
        """Send tuples to the tasks that a function of the batch and the number of tasks chooses."""
        return self._carried(Custom(choose))

    def parallelism_hint(self, tasks: int) -> "Stream":
        """Set the number of tasks of the operations since the last repartitioning."""
        for name in self.segment:
            self.components.change(name, parallelism=tasks)
        return self

    # Batch by batch.

    def partition_aggregate(
        self,
        aggregator: AnyAggregator | None = None,
        inputs: Names = (),
        output: str | None = None,
        **measures: str,
    ) -> "Stream":
        """Aggregate what a batch has in each task: an aggregator, or measures such as n="count"."""
        fold, fields = self._fold((), aggregator, inputs, output, measures)
        grouping = None if self.segment or self._grouping is not None else Custom(evenly)
        return self._next("partition-aggregate", BatchFoldWork(fold), fields, grouping)

    def aggregate(
        self,
        aggregator: AnyAggregator | None = None,
        inputs: Names = (),
        output: str | None = None,
        **measures: str,
    ) -> "Stream":
        """Aggregate each whole batch."""
        fold, fields = self._fold((), aggregator, inputs, output, measures)
        return self._next("aggregate", BatchFoldWork(fold), fields, Global())

    def min_by(self, field: str) -> "Stream":
        """Keep the tuple of each batch with the least value of a field."""
        (name,) = self._known([field], "min_by")
        return self._next("min-by", ExtremeWork(name, greatest=False), self.fields, Global())

    def max_by(self, field: str) -> "Stream":
        """Keep the tuple of each batch with the greatest value of a field."""
        (name,) = self._known([field], "max_by")
        return self._next("max-by", ExtremeWork(name, greatest=True), self.fields, Global())

    def group_by(self, *names: str) -> "GroupedStream":
        """Group by some fields: what follows is computed per group."""
        return GroupedStream(self, self._known(names, "group_by"))

    def persistent_aggregate(
        self,
        state: Any,
        aggregator: AnyAggregator | None = None,
        inputs: Names = (),
        output: str | None = None,
        **measures: str,
    ) -> "TridentState":
        """Keep one total over all batches: see `GroupedStream.persistent_aggregate`."""
        return self._persist((), state, aggregator, inputs, output, measures)

    def partition_persist(
        self,
        state: Any,
        updater: Any,
        inputs: Names = (),
        output: str | None = None,
        *,
        key: str | None = None,
        value: str | None = None,
    ) -> "TridentState":
        """Update a state with what each batch has in each task.

        Args:
            state: as for `persistent_aggregate`, or a `StateFactory` with `make_state`.
            updater: a `StateUpdater`, or a function (state, tuples, collector).
            inputs: the fields of the tuples; all by default.
            output: the fields that the updater emits, the stream of new values.
            key, value: the fields of the state; those of the stream may stand without a type.
        """
        names = self._known(inputs, "partition_persist") or self.fields.names
        parts = persist_parts(self.fields, state, updater, names, output, key, value)
        first = self.components.get(self.segment[0]) if self.segment else None
        grouping = self._grouping or partition_grouping(first, self.fields)
        tasks = 1 if first is None or self._grouping is not None else first.parallelism
        more = {"parallelism": tasks, "stateful": parts.stateful}
        name = self._add("partition-persist", parts.work, parts.outputs, grouping, **more)
        if isinstance(state, TopicState):
            self._write_changes(name, CHANGES, state, parts.outputs[CHANGES])
        return TridentState(self.components, name, parts.state_fields, parts.work, parts.factory)

    def window(
        self,
        window: WindowSpec,
        aggregator: AnyAggregator | None = None,
        inputs: Names = (),
        output: str | None = None,
        **measures: str,
    ) -> "Stream":
        """Aggregate each window, a `CountWindow` or a `TimeWindow`."""
        return self._windowed((), window, aggregator, inputs, output, measures, Global())

    # Out of the chain.

    def state_query(
        self, state: "TridentState", inputs: Names, output: Names | None = None
    ) -> "Stream":
        """Append the value that a state has for the key in these fields; `output` renames it."""
        return state.query(self, self._known(inputs, "state_query"), output)

    def to_topic(self, topic: str, *, key: str | None = None, value: str | None = None) -> "Stream":
        """Write each tuple to a topic, as JSON or one of its fields."""
        sink = TopicSink(topic, key=key, value=value)
        self.components.add("topic", sink, None, (self.as_input(),), kind=Kind.SINK)
        return self

    # For the other classes of this package.

    def as_input(self) -> Input:
        return Input(*self.source, self._grouping or Shuffle())

    def _add(
        self,
        label: str,
        work: Work,
        fields: Fields | dict[str, Fields],
        grouping: Grouping | None = None,
        **more: Any,
    ) -> str:
        how = grouping or self._grouping or Shuffle()
        return self.components.add(label, work, fields, (Input(*self.source, how),), **more)

    def _next(
        self,
        label: str,
        work: Work,
        fields: Fields,
        grouping: Grouping | None = None,
        **more: Any,
    ) -> "Stream":
        name = self._add(label, work, fields, grouping, **more)
        carried = grouping is not None or self._grouping is not None
        segment = (name,) if carried else (*self.segment, name) if self.segment else ()
        return Stream(self.components, (name, DEFAULT_STREAM), fields, segment)

    def _fold(
        self,
        by: tuple[str, ...],
        aggregator: AnyAggregator | None,
        inputs: Names,
        output: str | None,
        measures: dict[str, str],
    ) -> tuple[Work, Fields]:
        return fold_of(self.fields, by, aggregator, names_of(inputs), output, measures)

    def _windowed(
        self,
        by: tuple[str, ...],
        window: WindowSpec,
        aggregator: AnyAggregator | None,
        inputs: Names,
        output: str | None,
        measures: dict[str, str],
        grouping: Grouping,
    ) -> "Stream":
        fold, fields = self._fold(by, aggregator, inputs, output, measures)
        work, tick = window_work(fold, window, grouped=bool(by))
        return self._next("window", work, fields, grouping, stateful=True, tick_seconds=tick)

    def _persist(
        self,
        by: tuple[str, ...],
        state: Any,
        aggregator: AnyAggregator | None,
        inputs: Names,
        output: str | None,
        measures: dict[str, str],
    ) -> "TridentState":
        check_can_persist(aggregator)
        fold, fields = self._fold(by, aggregator, inputs, output, measures)
        grouping: Grouping = FieldsGrouping(by) if by else Global()
        state_fields = StateFields.split(fields, len(by)) if by else None
        label = "persistent-aggregate"
        if isinstance(state, TopicState):
            name = self._add(label, fold, fields, grouping, stateful=True)
            keyed = state if by else replace(state, key=state.key or "")
            self._write_changes(name, DEFAULT_STREAM, keyed, fields)
            return TridentState(self.components, name, state_fields, fold, None)
        factory, keyed_fields = check_can_fold(state, state_fields)
        work = PersistWork(factory, fold, keyed_fields)
        name = self._add(label, work, fields, grouping)
        return TridentState(self.components, name, keyed_fields, fold, factory)

    def _write_changes(self, name: str, stream: str, state: TopicState, fields: Fields) -> None:
        """Write new values to the topic of a state; an empty key stands for none."""
        key = fields.names[0] if state.key is None else state.key or None
        if key is not None:
            fields.check_known([key], "a TopicState's key")
        changed = (Input(name, stream, Shuffle()),)
        self.components.add("state", StateSink(state.topic, key=key), None, changed, kind=Kind.SINK)

    def _replaced(self, label: str, function: Callable[..., Any], output: str) -> "Stream":
        new = Fields.parse(output)
        work = EachWork(function, inputs=self.fields.names, width=len(new))
        return self._next(label, work, new)

    def _carried(self, grouping: Grouping) -> "Stream":
        # Two repartitionings in a row need something between them that runs in the tasks.
        if self._grouping is not None:
            passed = self._next("pass", ProjectWork(self.fields.names), self.fields)
            return passed._carried(grouping)
        return Stream(self.components, self.source, self.fields, self.segment, grouping)

    def _known(self, names: Names, who: str) -> tuple[str, ...]:
        known = names_of(names)
        self.fields.check_known(known, who)
        return known


class GroupedStream:
    """A stream grouped by some fields, made by `Stream.group_by`. Aggregates have a result per
    group; the tuples of a group are carried to one task."""

    def __init__(self, stream: Stream, by: tuple[str, ...]) -> None:
        self._stream = stream
        self._by = by
        if not by:
            raise FlowError("group_by needs the names of the fields to group by")
        self._grouping = FieldsGrouping(by)

    def aggregate(
        self,
        aggregator: AnyAggregator | None = None,
        inputs: Names = (),
        output: str | None = None,
        **measures: str,
    ) -> Stream:
        """Aggregate what each batch has of each group: the key, and the aggregator's result."""
        fold, fields = self._stream._fold(self._by, aggregator, inputs, output, measures)
        return self._stream._next("aggregate", BatchFoldWork(fold), fields, self._grouping)

    def persistent_aggregate(
        self,
        state: Any,
        aggregator: AnyAggregator | None = None,
        inputs: Names = (),
        output: str | None = None,
        **measures: str,
    ) -> "TridentState":
        """Keep the total of each group over all batches in a state.

        Args:
            state: a `TopicState`, `SqliteState`, `PostgresState` or `ParquetState`.
            aggregator: a combiner or a reducer; or give measures, such as n="count".
        """
        return self._stream._persist(self._by, state, aggregator, inputs, output, measures)

    def window(
        self,
        window: WindowSpec,
        aggregator: AnyAggregator | None = None,
        inputs: Names = (),
        output: str | None = None,
        **measures: str,
    ) -> Stream:
        """Aggregate what each window of time has of each group."""
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
        """Aggregate each group's tuples that follow each other without a pause of `gap_seconds`.

        Emits the key, `session_start`, `session_end` (its first and last time) and the aggregate.

        Args:
            timestamp: the field with a tuple's time.
            lag_seconds: how long to wait for tuples that come out of order.
        """
        fold, folded = self._stream._fold(self._by, aggregator, inputs, output, measures)
        fields = session_fields(folded, len(self._by))
        work = SessionWork(
            fold,
            self._by,
            timestamp,
            gap_ms=round(gap_seconds * 1_000),
            lag_ms=round(lag_seconds * 1_000),
        )
        work.check_fields(self._stream.fields, "session_window")
        return self._stream._next("session", work, fields, self._grouping, stateful=True)


class TridentState:
    """A state that a chain keeps: its new values as a stream, and its values for queries.

    Made by `persistent_aggregate`.
    """

    def __init__(
        self,
        components: ChainComponents,
        component: str,
        state_fields: StateFields | None,
        fold: Work,
        factory: StateFactory | None,
    ) -> None:
        self._components = components
        self._component = component
        self._state_fields = state_fields
        self._fold = fold
        self._factory = factory
        self._queries: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {}

    def new_values_stream(self) -> Stream:
        """Return the key and the new value of each key that a batch changed."""
        fields = self._components.get(self._component).outputs.get(DEFAULT_STREAM)
        if fields is None:
            raise FlowError(
                "an updater has no stream of new values without output='name TYPE, ...'"
            )
        segment = (self._component,)
        return Stream(self._components, (self._component, DEFAULT_STREAM), fields, segment)

    def parallelism_hint(self, tasks: int) -> "TridentState":
        """Set the number of tasks that keep the state."""
        self._components.change(self._component, parallelism=tasks)
        return self

    def query(self, stream: Stream, inputs: tuple[str, ...], output: Names | None) -> Stream:
        """Append the value of a key to each tuple of a stream; see `Stream.state_query`."""
        if self._state_fields is None:
            raise FlowError(f"state_query asks by {', '.join(inputs)}, but the state has no key")
        names = None if output is None else names_of(output)
        fields = self._state_fields.answer_fields(stream.fields, inputs, names)
        if self._factory is not None:
            tasks = self._components.get(self._component).parallelism
            work = QueryWork(self._factory, self._state_fields, inputs, tasks)
            return stream._next("state-query", work, fields)
        return self._query_spark_state(stream, inputs, fields)

    def _query_spark_state(self, stream: Stream, inputs: tuple[str, ...], fields: Fields) -> Stream:
        """Send the tuples of a stream to the task that has their key in Spark's state."""
        if stream.source in self._queries:
            raise FlowError("a stream asks a state once: use what state_query gave for the rest")
        answers = f"answers-{len(self._queries) + 1}"
        self._queries[stream.source] = answers, inputs
        before = self._components.get(self._component)
        asking = Input(*stream.source, FieldsGrouping(inputs))
        self._components.change(
            self._component,
            work=QueryableWork(self._fold, dict(self._queries)),
            inputs=(*before.inputs, asking),
            outputs={**before.outputs, answers: fields},
        )
        return Stream(self._components, (self._component, answers), fields, (self._component,))
