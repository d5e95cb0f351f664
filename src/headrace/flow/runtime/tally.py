"""What each component of a task did in a batch."""

import json
import time
from collections import defaultdict
from dataclasses import dataclass

import pyarrow as pa

from headrace.flow.runtime.record import records


@dataclass(slots=True)
class Tally:
    executed: int = 0
    emitted: int = 0
    failed: int = 0
    busy_ns: int = 0


class TallySheet:
    """Counts by component; one for each task of Spark and batch."""

    def __init__(self) -> None:
        self._tallies: defaultdict[str, Tally] = defaultdict(Tally)

    def of(self, component: str) -> Tally:
        return self._tallies[component]

    def to_records(self, topic: str, plan: str) -> pa.RecordBatch | None:
        """A record for each component that did something, keyed by plan and component."""
        rows = {name: each for name, each in self._tallies.items() if each.executed or each.emitted}
        if not rows:
            return None
        at_ms = time.time_ns() // 1_000_000
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
                }
            ).encode()
            for name, each in rows.items()
        ]
        keys = [f"{plan}/{name}".encode() for name in rows]
        return records(topic, key=pa.array(keys, pa.binary()), value=pa.array(values, pa.binary()))
