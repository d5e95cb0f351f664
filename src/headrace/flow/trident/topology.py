"""Declaring a chain, from its spouts to its states and topics."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.flow.error import FlowError
from headrace.flow.plan.aggregate import with_outputs
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.grouping import FieldsGrouping
from headrace.flow.plan.plan import DEFAULT_STREAM, Component, Guarantee, Input, Kind, Plan
from headrace.flow.runtime.work import Work
from headrace.flow.storm.spout import Spout
from headrace.flow.trident.join_work import SIDE, JoinWork, SideWork
from headrace.flow.trident.operation import ProjectWork
from headrace.flow.trident.stream import Stream, names_of

_OUTER = {"inner": (False, False), "left": (True, False), "right": (False, True)}
_OUTER["outer"] = (True, True)


class TridentTopology:
    """Streams of batches; a batch of Spark is a batch of Trident.

    Args:
        guarantee, dead_letters, retries, settings: as for `storm.topology.Topology`.

    Example:
        topology = TridentTopology("hashtags")
        tweets = topology.new_stream("tweets", TopicSpout("tweets", brokers=brokers))
        tags = tweets.each("value", hashtags, output="tag STRING")
        tags.group_by("tag").persistent_aggregate(PostgresState(url, "hashtags"), n="count")
    """

    def __init__(
        self,
        name: str,
        *,
        guarantee: str | Guarantee = Guarantee.EXACTLY_ONCE,
        dead_letters: str | None = "",
        retries: int = 1,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        try:
            self._guarantee = Guarantee(guarantee)
        except ValueError:
            known = ", ".join(each.value for each in Guarantee)
            raise FlowError(f"a guarantee cannot be {guarantee!r}: write {known}") from None
        self._dead_letters = f"{name}-dead-letters" if dead_letters == "" else dead_letters
        self._retries = retries
        self._settings = dict(settings or {})
        self._components: dict[str, Component] = {}

    def new_stream(self, name: str, spout: Spout) -> Stream:
        if name in self._components:
            raise FlowError(f"{self.name} has two streams called {name!r}")
        outputs = {DEFAULT_STREAM: spout.fields}
        self._components[name] = Component(name, Kind.SPOUT, spout, outputs)
        return Stream(self, (name, DEFAULT_STREAM), spout.fields)

    def merge(self, *streams: Stream) -> Stream:
        """Several streams of the same fields as one."""
        if len(streams) < 2:
            raise FlowError("merge takes two streams or more")
        first = streams[0].fields
        for each in streams[1:]:
            if each.fields.schema != first.schema:
                raise FlowError(
                    f"streams of different fields cannot be merged: {first.ddl} and"
                    f" {each.fields.ddl}; let project or map make them alike"
                )
        inputs = tuple(each.as_input() for each in streams)
        made = self.add("merge", ProjectWork(first.names), first, inputs)
        return Stream(self, (made, DEFAULT_STREAM), first)

    def join(
        self,
        left: Stream,
        left_keys: str | Sequence[str],
        right: Stream,
        right_keys: str | Sequence[str],
        *,
        output: Sequence[str] | None = None,
        kind: str = "inner",
        parallelism: int = 1,
    ) -> Stream:
        """The tuples of both streams, within each batch, that have the same keys.

        Args:
            output: new names of the fields: the keys, those of the left, those of the right.
            kind: inner, left, right or outer.
        """
        keys, other = names_of(left_keys), names_of(right_keys)
        left.fields.check_known(keys, "the join's left side")
        right.fields.check_known(other, "the join's right side")
        if kind not in _OUTER or len(keys) != len(other):
            raise FlowError(
                f"a join cannot be {kind!r} on {', '.join(keys)} and {', '.join(other)}: write"
                f" {', '.join(_OUTER)}, and as many keys on both sides"
            )
        lefts = [each for each in left.fields.names if each not in keys]
        rights = [each for each in right.fields.names if each not in other]
        names = list(output or (*keys, *lefts, *rights))
        kinds = [left.fields.ddl_of(each) for each in (*keys, *lefts)]
        kinds += [right.fields.ddl_of(each) for each in rights]
        if len(names) != len(kinds):
            raise FlowError(
                f"the join has {len(kinds)} fields ({', '.join((*keys, *lefts, *rights))}) and"
                f" output names {len(names)}"
            )
        fields = Fields.parse(", ".join(map(" ".join, zip(names, kinds, strict=True))))
        both = Fields.parse(f"{SIDE} INT, {fields.ddl}")
        sides: tuple[list[str | None], list[str | None]] = (
            [*keys, *lefts, *(None for _ in rights)],
            [*other, *(None for _ in lefts), *rights],
        )
        inputs = (left.as_input(), right.as_input())
        one = self.add("sides", SideWork(left.source, sides), both, inputs)
        width, middle = len(keys), len(keys) + len(lefts)
        work = JoinWork(
            tuple(names[:width]), tuple(names[width:middle]), tuple(names[middle:]), _OUTER[kind]
        )
        grouping = FieldsGrouping(tuple(names[:width]))
        where = (Input(one, DEFAULT_STREAM, grouping),)
        made = self.add("join", work, fields, where, parallelism=parallelism)
        return Stream(self, (made, DEFAULT_STREAM), fields, (made,))

    def plan(self) -> Plan:
        return Plan(
            name=self.name,
            components=with_outputs(self._components),
            guarantee=self._guarantee,
            dead_letters=self._dead_letters,
            retries=self._retries,
            settings=self._settings,
        )

    # For streams.

    def add(
        self,
        label: str,
        work: Work,
        fields: Fields | None,
        inputs: tuple[Input, ...],
        *,
        kind: Kind = Kind.BOLT,
        **more: Any,
    ) -> str:
        """A component under a name of its own."""
        number = 1 + sum(1 for each in self._components if each.rpartition("-")[0] == label)
        name = f"{label}-{number}"
        outputs = {} if fields is None else {DEFAULT_STREAM: fields}
        self._components[name] = Component(name, kind, work, outputs, inputs, **more)
        return name

    def component(self, name: str) -> Component:
        return self._components[name]

    def change(self, name: str, **changes: Any) -> None:
        self._components[name] = replace(self._components[name], **changes)
