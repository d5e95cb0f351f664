"""What a program does, free of any engine: components, the streams between them, and guarantees.

Every front door (`storm`, `trident`, `samza`, `sql`) builds a `Plan`; `check` says what is wrong
with it, `stage` cuts it, `compile` hands it to Spark. Nothing here imports Spark.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from headrace.flow.plan.fields import Fields
from headrace.flow.plan.grouping import Grouping

DEFAULT_STREAM = "default"


class Guarantee(Enum):
    AT_MOST_ONCE = "at-most-once"
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


class Latency(Enum):
    """How a plan runs: batch after batch, or in Spark's real-time mode, where the plan allows."""

    MICRO_BATCH = "micro-batch"
    REALTIME = "realtime"


class Kind(Enum):
    SPOUT = "spout"
    BOLT = "bolt"
    SINK = "sink"


@dataclass(frozen=True, slots=True)
class Input:
    """Where a component's tuples come from."""

    component: str
    stream: str
    grouping: Grouping


@dataclass(frozen=True, slots=True)
class Component:
    """One spout, bolt or sink.

    Attributes:
        work: what it does; a front door's object that `runtime` can run. It must pickle.
        outputs: the streams it emits, by name.
        stateful: whether it is given a state that survives restarts.
        tick_seconds: how often its `tick` is called, if it has one.
    """

    name: str
    kind: Kind
    work: Any
    outputs: Mapping[str, Fields] = field(default_factory=dict)
    inputs: tuple[Input, ...] = ()
    parallelism: int = 1
    stateful: bool = False
    tick_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole program. The order of `components` is the order in which they were declared.

    Attributes:
        dead_letters: the topic for tuples that a bolt cannot take; None: such a tuple ends the
            program.
        retries: how often a batch is tried again before its bad tuples are looked for.
    """

    name: str
    components: Mapping[str, Component]
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    dead_letters: str | None = None
    retries: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    latency: Latency = Latency.MICRO_BATCH

    def fields_of(self, source: Input) -> Fields:
        """The fields of the stream that an input reads."""
        return self.components[source.component].outputs[source.stream]

    def readers_of(self, component: str, stream: str) -> list[tuple[Component, Input]]:
        """Who reads a stream, in the order of declaration."""
        return [
            (reader, each)
            for reader in self.components.values()
            for each in reader.inputs
            if (each.component, each.stream) == (component, stream)
        ]
