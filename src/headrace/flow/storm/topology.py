"""Declaring a topology."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headrace.flow.error import FlowError
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
from headrace.flow.plan.plan import (
    DEFAULT_STREAM,
    Guarantee,
    Input,
    Kind,
    Latency,
    Plan,
    PlanComponent,
)
from headrace.flow.plan.plan_options import PlanOptions
from headrace.flow.plan.window import CountWindow, TimeWindow
from headrace.flow.plan.work import Work
from headrace.flow.storm.bolt import BoltWork, StatefulBolt, work_of
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import Spout
from headrace.flow.storm.windowed_bolt import WindowedBolt, clock_of, windowed

Output = str | Sequence[str] | Fields | Mapping[str, "str | Sequence[str] | Fields"]
"""Fields of the default stream, or of several named ones."""


class Topology:
    """Spouts, bolts and sinks under names, and the streams between them.

    Args:
        guarantee: at-most-once, at-least-once or exactly-once, for what is written to topics.
        dead_letters: the topic for tuples that a bolt raises for; None ends the topology at the
            first of them. By default it is called after the topology.
        retries: how often a batch that raised is tried again as a whole.
        latency: micro-batch, or realtime for a plan that Spark's real-time mode can run: see
            `headrace.flow.execution.realtime`.

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
        self._options = PlanOptions.of(
            name,
            guarantee=guarantee,
            dead_letters=dead_letters,
            retries=retries,
            settings=settings,
            latency=latency,
        )
        self._components: dict[str, PlanComponent] = {}

    def spout(self, name: str, spout: Spout, *, parallelism: int = 1) -> None:
        """Declare a spout.

        Args:
            parallelism: of a `PythonSpout`, into how many tasks its tuples are divided. Other
                spouts have a task per partition of what they read.
        """
        work = spout.as_work()
        self._add(
            PlanComponent(
                name=name,
                kind=Kind.SPOUT,
                work=work,
                outputs={DEFAULT_STREAM: work.fields} if work.fields else {},
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
        """Declare a bolt, and return what declares its inputs.

        Args:
            bolt: a `Bolt`, a function of a tuple's fields, a function of `(batch, emit)`, a
                `Select` or an `Aggregate`, whose `output` follows from its input. With a window, a
                `WindowedBolt` or a function of `(window, emit)`.
        """
        outputs = _outputs(output)
        default = outputs.get(DEFAULT_STREAM)
        if window is not None or isinstance(bolt, WindowedBolt):
            work: Work = windowed(bolt, window, name)
            tick_seconds = tick_seconds or clock_of(window)
        else:
            work = work_of(bolt, name, 0 if default is None else len(default))
        stateful = isinstance(work, BoltWork) and isinstance(work.bolt, StatefulBolt)
        self._add(
            PlanComponent(
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
        """Declare a sink, and return what declares its inputs."""
        self._add(PlanComponent(name=name, kind=Kind.SINK, work=sink))
        return Inputs(self, name)

    def plan(self) -> Plan:
        """Return what was declared; `check_plan` reports its mistakes."""
        return self._options.plan(self._components)

    def _add(self, component: PlanComponent) -> None:
        if component.name in self._components:
            raise FlowError(f"{self.name} has two components called {component.name!r}")
        self._components[component.name] = component

    def _add_input(self, reader: str, source: Input) -> None:
        component = self._components[reader]
        self._components[reader] = replace(component, inputs=(*component.inputs, source))


class Inputs:
    """The streams that a bolt or sink reads. Every method adds one and returns this object."""

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
        return self._read(component, stream, FieldsGrouping(_not_empty(names, "fields")))

    def partial_key(self, component: str, *names: str, stream: str = DEFAULT_STREAM) -> "Inputs":
        return self._read(component, stream, PartialKey(_not_empty(names, "partial_key")))

    def all(self, component: str, stream: str = DEFAULT_STREAM) -> "Inputs":
        return self._read(component, stream, All())

    def global_(self, component: str, stream: str = DEFAULT_STREAM) -> "Inputs":
        return self._read(component, stream, Global())

    def direct(self, component: str, stream: str = DEFAULT_STREAM) -> "Inputs":
        return self._read(component, stream, Direct())

    def custom(self, component: str, choose: TaskChoice, stream: str = DEFAULT_STREAM) -> "Inputs":
        return self._read(component, stream, Custom(choose))

    def _read(self, component: str, stream: str, grouping: Grouping) -> "Inputs":
        self._topology._add_input(self._reader, Input(component, stream, grouping))
        return self


def _outputs(output: Output) -> dict[str, Fields]:
    if isinstance(output, Mapping):
        return {stream: Fields.parse(each) for stream, each in output.items()}
    if not isinstance(output, Fields) and not output:
        return {}
    return {DEFAULT_STREAM: Fields.parse(output)}


def _not_empty(names: tuple[str, ...], method: str) -> tuple[str, ...]:
    if not names:
        raise FlowError(f".{method}(...) needs the names of the fields to group by")
    return names
