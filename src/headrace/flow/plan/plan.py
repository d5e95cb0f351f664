"""What a program does, independent of Spark: components, the streams between them, and guarantees.

`storm`, `trident` and `samza` build a `Plan`; `check_plan` reports its mistakes, `stage` cuts it
into stages, `execution` makes a Spark query of it. Nothing here imports Spark.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from headrace.flow.plan.fields import Fields
from headrace.flow.plan.grouping import Grouping

DEFAULT_STREAM = "default"


class Guarantee(Enum):
    """How often the effects of a record are written to topics."""

    AT_MOST_ONCE = "at-most-once"
    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


class Latency(Enum):
    """How a plan runs: batch by batch, or in Spark's real-time mode where the plan allows it."""

    MICRO_BATCH = "micro-batch"
    REALTIME = "realtime"


class Kind(Enum):
    """The kinds of components."""

    SPOUT = "spout"
    BOLT = "bolt"
    SINK = "sink"


@dataclass(frozen=True, slots=True)
class Input:
    """A stream that a component reads, and how its tuples are divided between tasks."""

    component: str
    stream: str
    grouping: Grouping


@dataclass(frozen=True, slots=True)
class PlanComponent:
    """One spout, bolt or sink.

    Attributes:
        work: what it does: a `Work`, or a spout. It must pickle.
        outputs: the fields of the streams that it emits, by name.
        stateful: whether it has a state that survives restarts.
        tick_seconds: how often its `tick` is called, if it has one.
        task_per_partition: each task has the state of one partition of a topic, so that a
            checkpoint goes on with more tasks when the topic has more partitions.
    """

    name: str
    kind: Kind
    work: Any
    outputs: Mapping[str, Fields] = field(default_factory=dict)
    inputs: tuple[Input, ...] = ()
    parallelism: int = 1
    stateful: bool = False
    tick_seconds: float | None = None
    task_per_partition: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole program. The order of `components` is the order in which they were declared.

    Attributes:
        dead_letters: the topic for tuples that a bolt raises for; None: such a tuple ends the
            program.
        retries: how often a batch is repeated before the tuples that raise are searched for.
    """

    name: str
    components: Mapping[str, PlanComponent]
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    dead_letters: str | None = None
    retries: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    latency: Latency = Latency.MICRO_BATCH

    def fields_of(self, source: Input) -> Fields:
        """Return the fields of the stream that an input reads."""
        return self.components[source.component].outputs[source.stream]

    def readers_of(self, component: str, stream: str) -> list[tuple[PlanComponent, Input]]:
        """Return the readers of a stream, in the order of declaration."""
        return [
            (reader, each)
            for reader in self.components.values()
            for each in reader.inputs
            if (each.component, each.stream) == (component, stream)
        ]
