"""A state that a chain keeps: its new values as a stream, and what it has for those who ask."""

from typing import Any

from headrace.flow.error import FlowError
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.grouping import FieldsGrouping, Global, Grouping
from headrace.flow.plan.plan import DEFAULT_STREAM, Input, Kind
from headrace.flow.runtime.work import Work
from headrace.flow.trident.aggregator import AnyAggregator
from headrace.flow.trident.fold_work import QueryableWork
from headrace.flow.trident.persist_work import PersistWork, QueryWork
from headrace.flow.trident.state import Shape, StateFactory
from headrace.flow.trident.stream import Names, Stream, check_can_persist, names_of
from headrace.flow.trident.topic_state import StateSink, TopicState


def persist(
    stream: Stream,
    by: tuple[str, ...],
    state: Any,
    aggregator: AnyAggregator | None,
    inputs: Names,
    output: str | None,
    measures: dict[str, str],
) -> "TridentState":
    """Add a persistent aggregate to a chain.

    Raises:
        FlowError: what it is given cannot be kept.
    """
    check_can_persist(aggregator)
    fold, made = stream.folding(aggregator, by, inputs, output, measures)
    grouping: Grouping = FieldsGrouping(by) if by else Global()
    key, value = _split(made, by)
    if isinstance(state, TopicState):
        name = stream.add("persistent-aggregate", fold, made, grouping, stateful=True)
        kept = TridentState(stream, name, Shape(key, value) if key else None, fold, None)
        record_key = state.key or (by[0] if by else None)
        if record_key is not None:
            made.check_known([record_key], "a TopicState's key")
        new_values = (kept.new_values_stream().as_input(),)
        sink = StateSink(state.topic, key=record_key)
        stream.topology.add("state", sink, None, new_values, kind=Kind.SINK)
        return kept
    if not isinstance(state, StateFactory):
        raise FlowError(
            f"{state!r} is no state: give a TopicState, SqliteState, PostgresState or ParquetState"
        )
    if key is None:
        raise FlowError(
            "a state outside of Spark has a key: write group_by first, or use a TopicState"
        )
    shape = Shape(key, value)
    name = stream.add("persistent-aggregate", PersistWork(state, fold, shape), made, grouping)
    return TridentState(stream, name, shape, fold, state)


class TridentState:
    """Made by `persistent_aggregate`."""

    def __init__(
        self,
        stream: Stream,
        component: str,
        shape: Shape | None,
        fold: Work,
        factory: StateFactory | None,
    ) -> None:
        self._topology = stream.topology
        self._component = component
        self._shape = shape
        self._fold = fold
        self._factory = factory
        self._asks: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {}

    def new_values_stream(self) -> Stream:
        """The key and the value of each key that a batch changed."""
        fields = self._topology.component(self._component).outputs[DEFAULT_STREAM]
        segment = (self._component,)
        return Stream(self._topology, (self._component, DEFAULT_STREAM), fields, segment)

    def parallelism_hint(self, tasks: int) -> "TridentState":
        self._topology.change(self._component, parallelism=tasks)
        return self

    def query(self, stream: Stream, inputs: tuple[str, ...], output: Names | None) -> Stream:
        if self._shape is None or len(inputs) != len(self._shape.key):
            known = "no key" if self._shape is None else ", ".join(self._shape.key.names)
            raise FlowError(f"state_query asks by {', '.join(inputs)}, but the state has {known}")
        for mine, theirs in zip(inputs, self._shape.key.names, strict=True):
            if stream.fields.ddl_of(mine) != self._shape.key.ddl_of(theirs):
                raise FlowError(
                    f"state_query asks with {mine} {stream.fields.ddl_of(mine)}, but the state's"
                    f" {theirs} is {self._shape.key.ddl_of(theirs)}"
                )
        fields = self._answer_fields(stream, output)
        if self._factory is not None:
            tasks = self._topology.component(self._component).parallelism
            work = QueryWork(self._factory, self._shape, inputs, tasks)
            return stream._next("state-query", work, fields)
        return self._query_inside(stream, inputs, fields)

    def _query_inside(self, stream: Stream, inputs: tuple[str, ...], fields: Fields) -> Stream:
        """Ask a state of Spark's: the tuple goes to the task that has its key."""
        if stream.source in self._asks:
            raise FlowError("a stream asks a state once: use what state_query gave for the rest")
        answers = f"answers-{len(self._asks) + 1}"
        self._asks[stream.source] = answers, inputs
        before = self._topology.component(self._component)
        asking = Input(*stream.source, FieldsGrouping(inputs))
        self._topology.change(
            self._component,
            work=QueryableWork(self._fold, dict(self._asks)),
            inputs=(*before.inputs, asking),
            outputs={**before.outputs, answers: fields},
        )
        return Stream(self._topology, (self._component, answers), fields, (self._component,))

    def _answer_fields(self, stream: Stream, output: Names | None) -> Fields:
        assert self._shape is not None
        value = self._shape.value
        names = value.names if output is None else names_of(output)
        if len(names) != len(value):
            raise FlowError(
                f"state_query renames {', '.join(value.names)} to {', '.join(names)}: write a name"
                " for each"
            )
        columns = [
            f"{new} {value.ddl_of(old)}" for new, old in zip(names, value.names, strict=True)
        ]
        return Fields.parse(", ".join([stream.fields.ddl, *columns]))


def _split(made: Fields, by: tuple[str, ...]) -> tuple[Fields | None, Fields]:
    columns = [f"{each} {made.ddl_of(each)}" for each in made.names]
    key = Fields.parse(", ".join(columns[: len(by)])) if by else None
    return key, Fields.parse(", ".join(columns[len(by) :]))
