"""Declaring a chain, from its spouts to its states and topics."""

from collections.abc import Mapping, Sequence

from headrace.flow.error import FlowError
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.grouping import FieldsGrouping
from headrace.flow.plan.plan import DEFAULT_STREAM, Guarantee, Input, Plan
from headrace.flow.plan.plan_options import PlanOptions
from headrace.flow.storm.spout import Spout
from headrace.flow.trident.chain_components import ChainComponents
from headrace.flow.trident.join_work import SIDE, JoinWork, SideWork
from headrace.flow.trident.operation import ProjectWork, names_of
from headrace.flow.trident.partition_persist import check_divided
from headrace.flow.trident.spout_kind import SpoutKind, checked, with_kind
from headrace.flow.trident.stream import Stream

_OUTER = {"inner": (False, False), "left": (True, False), "right": (False, True)}
_OUTER["outer"] = (True, True)


class TridentTopology:
    """Chains of operations over streams. A batch of Spark is a batch of Trident.

    Args:
        guarantee, dead_letters, retries, settings: as for `headrace.flow.storm.Topology`.

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
        self._options = PlanOptions.of(
            name,
            guarantee=guarantee,
            dead_letters=dead_letters,
            retries=retries,
            settings=settings,
        )
        self._components = ChainComponents()
        self._kinds: dict[str, SpoutKind] = {}

    def new_stream(self, name: str, spout: Spout, *, kind: str | SpoutKind | None = None) -> Stream:
        """Return the stream of a spout's tuples.

        Args:
            kind: transactional, opaque or non-transactional: what a repeated batch has; see
                `SpoutKind`. By default a `TopicSpout` is transactional, or opaque with
                failOnDataLoss=false, a `SparkSpout` is opaque, and a `PythonSpout` is
                non-transactional.

        Raises:
            FlowError: the name is taken, or the spout cannot be of that kind.
        """
        work, self._kinds[name] = with_kind(spout.as_work(), kind, self._options.settings)
        self._components.add_spout(name, work, self.name)
        return Stream(self._components, (name, DEFAULT_STREAM), work.fields)

    def merge(self, *streams: Stream) -> Stream:
        """Return several streams with the same fields as one."""
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
        merged = self._components.add("merge", ProjectWork(first.names), first, inputs)
        return Stream(self._components, (merged, DEFAULT_STREAM), first)

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
        """Return the tuples of both streams that have the same keys within a batch.

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
        united = self._components.add("sides", SideWork(left.source, sides), both, inputs)
        width, middle = len(keys), len(keys) + len(lefts)
        work = JoinWork(
            tuple(names[:width]), tuple(names[width:middle]), tuple(names[middle:]), _OUTER[kind]
        )
        by_key = (Input(united, DEFAULT_STREAM, FieldsGrouping(tuple(names[:width]))),)
        joined = self._components.add("join", work, fields, by_key, parallelism=parallelism)
        return Stream(self._components, (joined, DEFAULT_STREAM), fields, (joined,))

    def plan(self) -> Plan:
        """Return what was declared; `check_plan` reports its other mistakes.

        Raises:
            FlowError: a state promises more than the kind of its spouts allows, or several tasks
                would change one key of it.
        """
        check_divided(self._components.by_name)
        return self._options.plan(checked(self._components.by_name, self._kinds))
