"""Counts of what each component of a Spark task did in a batch."""

import json
import time
from collections import defaultdict
from dataclasses import dataclass

import pyarrow as pa

from headrace.flow.runtime.record import records


@dataclass(slots=True)
class ComponentTally:
    """Tuples that a component was given, emitted and failed on, and how long it was busy."""

    executed: int = 0
    emitted: int = 0
    failed: int = 0
    busy_ns: int = 0


class TaskCounts:
    """The counts of one Spark task and batch, by component. It is made when the task begins."""

    def __init__(self) -> None:
        self.tallies: defaultdict[str, ComponentTally] = defaultdict(ComponentTally)
        self._started_ns = time.perf_counter_ns()

    def of(self, component: str) -> ComponentTally:
        return self.tallies[component]

    def to_records(self, topic: str, plan: str) -> pa.RecordBatch | None:
        """Return a record per component that did something, keyed by plan and component.

        `latency_ms` is the time per tuple. `capacity` is the share of the task's time that the
        component was busy: near 1 it is the bottleneck.
        """
        rows = {name: each for name, each in self.tallies.items() if each.executed or each.emitted}
        if not rows:
            return None
        at_ms = time.time_ns() // 1_000_000
        elapsed_ns = max(1, time.perf_counter_ns() - self._started_ns)
        values = [
            json.dumps(
                {
                    "plan": plan,
                    "component": name,
                    "at_ms": at_ms,
                    "executed": each.executed,
                    "emitted": each.emitted,
                    "failed": each.failed,
                    "busy_ms": each.busy_ns / 1e6,
                    "latency_ms": each.busy_ns / 1e6 / max(1, each.executed),
                    "capacity": min(1.0, each.busy_ns / elapsed_ns),
                }
            ).encode()
            for name, each in rows.items()
        ]
        keys = [f"{plan}/{name}".encode() for name in rows]
        return records(topic, key=pa.array(keys, pa.binary()), value=pa.array(values, pa.binary()))
