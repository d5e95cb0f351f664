"""Declaring a topology."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any, TypeVar

from headrace.flow.error import FlowError
from headrace.flow.plan.aggregate import with_outputs
from headrace.flow.plan.fields import Fields
from headrace.flow.plan.grouping import (
    All,
    Custom,
    Direct,
    FieldsGrouping,
    Global,
    Grouping,
    LocalOrShuffle,
    NoGrouping,
    PartialKey,
    Shuffle,
    TaskChoice,
)
from headrace.flow.plan.plan import DEFAULT_STREAM, Component, Guarantee, Input, Kind, Latency, Plan
from headrace.flow.plan.window import CountWindow, TimeWindow
from headrace.flow.runtime.work import Work
from headrace.flow.storm.bolt import BoltWork, StatefulBolt, work_of
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import Spout
from headrace.flow.storm.windowed_bolt import WindowedBolt, clock_of, windowed

Output = str | Sequence[str] | Fields | Mapping[str, "str | Sequence[str] | Fields"]
"""Fields of the default stream, or of several named ones."""

_Choice = TypeVar("_Choice", bound=Enum)


class Topology:
    """Spouts, bolts and sinks under names, and who reads from whom.

    Args:
        guarantee: at-most-once, at-least-once or exactly-once, for what is written to topics.
        dead_letters: the topic for tuples that a bolt cannot take; None ends the topology at the
            first of them. By default it is called after the topology.
        retries: how often a batch that raised is tried again as a whole.
        latency: micro-batch, or realtime for a plan that Spark's real-time mode can run: see
            `realtime`.

    Example:
        topology = Topology("word-count")
        topology.spout("lines", TopicSpout("lines", brokers=brokers, fields="value STRING"))
        topology.bolt("split", str.split, output="word STRING").shuffle("lines")
        topology.bolt("count", Count(), output="word STRING, n BIGINT").fields("split", "word")
        topology.sink("counts", TopicSink("counts", key="word")).shuffle("count")
    """

    def __init__(
        self,
        name: str,
        *,
        guarantee: str | Guarantee = Guarantee.EXACTLY_ONCE,
        dead_letters: str | None = "",
        retries: int = 1,
        settings: Mapping[str, str] | None = None,
        latency: str | Latency = Latency.MICRO_BATCH,
    ) -> None:
        self.name = name
        self._guarantee = _one_of(Guarantee, guarantee, "guarantee")
        self._latency = _one_of(Latency, latency, "latency")
        self._dead_letters = f"{name}-dead-letters" if dead_letters == "" else dead_letters
        self._retries = retries
        self._settings = dict(settings or {})
        self._components: dict[str, Component] = {}

    def spout(self, name: str, spout: Spout, *, parallelism: int = 1) -> None:
        self._add(
            Component(
                name=name,
                kind=Kind.SPOUT,
                work=spout,
                outputs={DEFAULT_STREAM: spout.fields},
                parallelism=parallelism,
            )
        )

    def bolt(
        self,
        name: str,
        bolt: Any,
        *,
        output: Output = (),
        parallelism: int = 1,
        tick_seconds: float | None = None,
        window: CountWindow | TimeWindow | None = None,
    ) -> "Inputs":
        """Declare a bolt: a `Bolt`, a function of a tuple's fields, one of `(batch, emit)`,
        or an `Aggregate`, whose `output` follows from its input; with a window a `WindowedBolt`
        or a function of `(window, emit)`."""
        outputs = _outputs(output)
        default = outputs.get(DEFAULT_STREAM)
        if window is not None or isinstance(bolt, WindowedBolt):
            work: Work = windowed(bolt, window, name)
            tick_seconds = tick_seconds or clock_of(window)
        else:
            work = work_of(bolt, name, 0 if default is None else len(default))
        stateful = isinstance(work, BoltWork) and isinstance(work.bolt, StatefulBolt)
        self._add(
            Component(
                name=name,
                kind=Kind.BOLT,
                work=work,
                outputs=outputs,
                parallelism=parallelism,
                stateful=stateful or bool(getattr(work, "stateful", False)),
                tick_seconds=tick_seconds,
            )
        )
        return Inputs(self, name)

    def sink(self, name: str, sink: TopicSink) -> "Inputs":
        self._add(Component(name=name, kind=Kind.SINK, work=sink))
        return Inputs(self, name)

    def plan(self) -> Plan:
        return Plan(
            name=self.name,
            components=with_outputs(self._components),
            guarantee=self._guarantee,
            dead_letters=self._dead_letters,
            retries=self._retries,
            settings=self._settings,
            latency=self._latency,
        )

    def _add(self, component: Component) -> None:
        if component.name in self._components:
            raise FlowError(f"{self.name} has two components called {component.name!r}")
        self._components[component.name] = component

    def _read(self, reader: str, source: Input) -> None:
        component = self._components[reader]
        self._components[reader] = replace(component, inputs=(*component.inputs, source))


class Inputs:
    """Which streams a bolt or sink reads; every method adds one and returns this again."""

    def __init__(self, topology: Topology, reader: str) -> None:
        self._topology = topology
        self._reader = reader

    def shuffle(self, component: str, stream: str = DEFAULT_STREAM) -> "Inputs":
        return self._read(component, stream, Shuffle())

    def local_or_shuffle(self, component: str, stream: str = DEFAULT_STREAM) -> "Inputs":
        return self._read(component, stream, LocalOrShuffle())

    def none(self, component: str, stream: str = DEFAULT_STREAM) -> "Inputs":
        return self._read(component, stream, NoGrouping())

    def fields(self, component: str, *names: str, stream: str = DEFAULT_STREAM) -> "Inputs":
        return self._read(component, stream, FieldsGrouping(_some(names, "fields")))

    def partial_key(self, component: str, *names: str, stream: str = DEFAULT_STREAM) -> "Inputs":
        return self._read(component, stream, PartialKey(_some(names, "partial_key")))

    def all(self, component: str, stream: str = DEFAULT_STREAM) -> "Inputs":
        return self._read(component, stream, All())

    def global_(self, component: str, stream: str = DEFAULT_STREAM) -> "Inputs":
        return self._read(component, stream, Global())

    def direct(self, component: str, stream: str = DEFAULT_STREAM) -> "Inputs":
        return self._read(component, stream, Direct())

    def custom(self, component: str, choose: TaskChoice, stream: str = DEFAULT_STREAM) -> "Inputs":
        return self._read(component, stream, Custom(choose))

    def _read(self, component: str, stream: str, grouping: Grouping) -> "Inputs":
        self._topology._read(self._reader, Input(component, stream, grouping))
        return self


def _one_of(kind: type[_Choice], given: Any, name: str) -> _Choice:
    try:
        return kind(given)
    except ValueError:
        known = ", ".join(each.value for each in kind)
        raise FlowError(f"a {name} cannot be {given!r}: write {known}") from None


def _outputs(output: Output) -> dict[str, Fields]:
    if isinstance(output, Mapping):
        return {stream: Fields.parse(each) for stream, each in output.items()}
    if not isinstance(output, Fields) and not output:
        return {}
    return {DEFAULT_STREAM: Fields.parse(output)}


def _some(names: tuple[str, ...], method: str) -> tuple[str, ...]:
    if not names:
        raise FlowError(f".{method}(...) needs the names of the fields to group by")
    return names
