"""A stream of a chain: every method adds an operation and gives the stream behind it."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.flow.error import FlowError
from headrace.flow.plan.aggregate import Aggregate
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
from headrace.flow.runtime.combiner import AggregateWork
from headrace.flow.runtime.work import Work
from headrace.flow.storm.sink import TopicSink
from headrace.flow.trident.aggregator import Aggregator, AnyAggregator
from headrace.flow.trident.fold_work import BatchFoldWork, FoldWork
from headrace.flow.trident.operation import (
    EachWork,
    ExtremeWork,
    FilterWork,
    Function,
    PeekWork,
    ProjectWork,
    evenly,
)
from headrace.flow.trident.window_fold import WindowSpec, window_work

if TYPE_CHECKING:
    from headrace.flow.trident.grouped_stream import GroupedStream
    from headrace.flow.trident.topology import TridentTopology
    from headrace.flow.trident.trident_state import TridentState

Names = str | Sequence[str]


class Stream:
    """Made by `TridentTopology`; never changed, so that several chains can go on from one.

    Attributes:
        source: the component and the stream of it that this is.
        segment: the operations since the tuples were last carried to tasks; empty right behind a
            spout, where a batch comes in pieces.
    """

    def __init__(
        self,
        topology: "TridentTopology",
        source: tuple[str, str],
        fields: Fields,
        segment: tuple[str, ...] = (),
        grouping: Grouping | None = None,
    ) -> None:
        self.topology = topology
        self.source = source
        self.fields = fields
        self.segment = segment
        self._grouping = grouping

    # Tuple by tuple.

    def each(self, inputs: Names, function: Function, output: str | None = None) -> "Stream":
        """Call a function with some fields. With `output`, what it gives (a value, a tuple, a list
        of these, or None) is appended to the tuple; without, it says which tuples stay."""
        names = self._known(inputs, "each")
        if output is None:
            return self._next("filter", FilterWork(function, names), self.fields)
        made = Fields.parse(output)
        for name in made.names:
            if name in self.fields.names:
                raise FlowError(f"each cannot append {name!r}: the tuple has such a field already")
        work = EachWork(function, names, self.fields.names, len(made))
        return self._next("each", work, Fields.parse(f"{self.fields.ddl}, {made.ddl}"))

    def filter(self, function: Function, inputs: Names | None = None) -> "Stream":
        """Keep the tuples for which a function of these fields, or of all, says yes."""
        names = self.fields.names if inputs is None else self._known(inputs, "filter")
        return self._next("filter", FilterWork(function, names), self.fields)

    def map(self, function: Function, output: str) -> "Stream":
        """A new tuple for each: a function of all its fields gives it."""
        return self._replaced("map", function, output)

    def flat_map(self, function: Function, output: str) -> "Stream":
        """As `map`, with a list of tuples for each."""
        return self._replaced("flat-map", function, output)

    def peek(self, function: Function) -> "Stream":
        """Show each tuple to a function, for what it does with it."""
        return self._next("peek", PeekWork(function), self.fields)

    def project(self, *names: str) -> "Stream":
        kept = self._known(names, "project")
        columns = ", ".join(f"{each} {self.fields.ddl_of(each)}" for each in kept)
        return self._next("project", ProjectWork(kept), Fields.parse(columns))

    # To which tasks.

    def shuffle(self) -> "Stream":
        return self._carried(Custom(evenly))

    def partition_by(self, *names: str) -> "Stream":
        return self._carried(FieldsGrouping(self._known(names, "partition_by")))

    def broadcast(self) -> "Stream":
        return self._carried(All())

    def global_(self) -> "Stream":
        return self._carried(Global())

    def batch_global(self) -> "Stream":
        """Every batch to one task; here always to the same one."""
        return self._carried(Global())

    def partition(self, choose: TaskChoice) -> "Stream":
        """As a function of the batch and the number of tasks says."""
        return self._carried(Custom(choose))

    def parallelism_hint(self, tasks: int) -> "Stream":
        """How many tasks have the operations since the last repartitioning."""
        for name in self.segment:
            self.topology.change(name, parallelism=tasks)
        return self

    # Batch by batch.

    def partition_aggregate(
        self,
        aggregator: AnyAggregator | None = None,
        inputs: Names = (),
        output: str | None = None,
        **measures: str,
    ) -> "Stream":
        """What a batch has in each task: a user's aggregator, or measures such as n="count"."""
        fold, made = self.folding(aggregator, (), inputs, output, measures)
        grouping = None if self.segment or self._grouping is not None else Custom(evenly)
        return self._next("partition-aggregate", BatchFoldWork(fold), made, grouping)

    def aggregate(
        self,
        aggregator: AnyAggregator | None = None,
        inputs: Names = (),
        output: str | None = None,
        **measures: str,
    ) -> "Stream":
        """What the whole batch has."""
        fold, made = self.folding(aggregator, (), inputs, output, measures)
        return self._next("aggregate", BatchFoldWork(fold), made, Global())

    def min_by(self, field: str) -> "Stream":
        (name,) = self._known([field], "min_by")
        return self._next("min-by", ExtremeWork(name, greatest=False), self.fields, Global())

    def max_by(self, field: str) -> "Stream":
        (name,) = self._known([field], "max_by")
        return self._next("max-by", ExtremeWork(name, greatest=True), self.fields, Global())

    def group_by(self, *names: str) -> "GroupedStream":
        from headrace.flow.trident.grouped_stream import GroupedStream

        return GroupedStream(self, self._known(names, "group_by"))

    def persistent_aggregate(
        self,
        state: Any,
        aggregator: AnyAggregator | None = None,
        inputs: Names = (),
        output: str | None = None,
        **measures: str,
    ) -> "TridentState":
        """One total of everything, for ever: see `GroupedStream.persistent_aggregate`."""
        from headrace.flow.trident.trident_state import persist

        return persist(self, (), state, aggregator, inputs, output, measures)

    def window(
        self,
        window: WindowSpec,
        aggregator: AnyAggregator | None = None,
        inputs: Names = (),
        output: str | None = None,
        **measures: str,
    ) -> "Stream":
        """What each window has: `CountWindow` or `TimeWindow`."""
        return self._windowed((), window, aggregator, inputs, output, measures, Global())

    # Out of the chain.

    def state_query(
        self, state: "TridentState", inputs: Names, output: Names | None = None
    ) -> "Stream":
        """Append what a state has for the key in these fields; `output` renames what it has."""
        return state.query(self, self._known(inputs, "state_query"), output)

    def to_topic(self, topic: str, *, key: str | None = None, value: str | None = None) -> "Stream":
        """Write each tuple to a topic, as JSON or one of its fields."""
        self.topology.add(
            "topic",
            TopicSink(topic, key=key, value=value),
            None,
            (self.as_input(),),
            kind=Kind.SINK,
        )
        return self

    # For the other nouns of this package.

    def as_input(self) -> Input:
        return Input(*self.source, self._grouping or Shuffle())

    def folding(
        self,
        aggregator: AnyAggregator | None,
        by: tuple[str, ...],
        inputs: Names,
        output: str | None,
        measures: dict[str, str],
    ) -> tuple[Work, Fields]:
        """The fold of an aggregator or of measures, and the fields of what it makes."""
        if (aggregator is None) == (not measures):
            raise FlowError("an aggregate takes an aggregator, or measures such as n='count'")
        if aggregator is None:
            wanted = Aggregate(by, **measures)
            return AggregateWork(wanted), wanted.output(self.fields, "of the stream")
        if isinstance(aggregator, type):
            raise FlowError(f"give an object, {aggregator.__name__}(), not the class")
        if output is None:
            raise FlowError(f"{type(aggregator).__name__} needs output='name TYPE, ...'")
        made = Fields.parse(output)
        names = self._known(inputs, type(aggregator).__name__)
        columns = [f"{each} {self.fields.ddl_of(each)}" for each in by]
        fields = Fields.parse(", ".join([*columns, made.ddl]))
        return FoldWork(aggregator, by, names, len(made)), fields

    def add(
        self,
        label: str,
        work: Work,
        fields: Fields,
        grouping: Grouping | None = None,
        **more: Any,
    ) -> str:
        how = grouping or self._grouping or Shuffle()
        return self.topology.add(label, work, fields, (Input(*self.source, how),), **more)

    def _next(
        self,
        label: str,
        work: Work,
        fields: Fields,
        grouping: Grouping | None = None,
        **more: Any,
    ) -> "Stream":
        name = self.add(label, work, fields, grouping, **more)
        carried = grouping is not None or self._grouping is not None
        segment = (name,) if carried else (*self.segment, name) if self.segment else ()
        return Stream(self.topology, (name, DEFAULT_STREAM), fields, segment)

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
        fold, made = self.folding(aggregator, by, inputs, output, measures)
        work, tick = window_work(fold, window)
        return self._next("window", work, made, grouping, stateful=True, tick_seconds=tick)

    def _replaced(self, label: str, function: Callable[..., Any], output: str) -> "Stream":
        made = Fields.parse(output)
        return self._next(label, EachWork(function, self.fields.names, (), len(made)), made)

    def _carried(self, grouping: Grouping) -> "Stream":
        # Two repartitionings in a row need something between them that runs in the tasks.
        if self._grouping is not None:
            return self._next("pass", ProjectWork(self.fields.names), self.fields)._carried(
                grouping
            )
        return Stream(self.topology, self.source, self.fields, self.segment, grouping)

    def _known(self, names: Names, who: str) -> tuple[str, ...]:
        found = names_of(names)
        self.fields.check_known(found, who)
        return found


def names_of(names: str | Sequence[str]) -> tuple[str, ...]:
    """Names as a user gives them: one, several, or several in one text."""
    if isinstance(names, str):
        return tuple(each.strip() for each in names.split(",") if each.strip())
    return tuple(names)


def check_can_persist(aggregator: AnyAggregator | None) -> None:
    if isinstance(aggregator, Aggregator):
        raise FlowError(
            f"{type(aggregator).__name__} is a general Aggregator, which sees a batch at a time: a"
            " state needs a CombinerAggregator or a ReducerAggregator"
        )
