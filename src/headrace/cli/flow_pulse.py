"""What a query of Spark says about itself, as far as a terminal shows it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.flow.metrics import records_read


@dataclass(frozen=True, slots=True)
class Pulse:
    """Figures of the last batch.

    Attributes:
        lag: records that were there and not read yet when the batch began; None: not told.
    """

    active: bool
    batch: int | None = None
    rows: int = 0
    rows_per_second: float = 0.0
    batch_ms: int = 0
    state_rows: int = 0
    state_bytes: int = 0
    lag: int | None = None

    @property
    def line(self) -> str:
        if self.batch is None:
            return "waiting for the first batch" if self.active else "nothing came"
        parts = [
            f"batch {self.batch}",
            f"{self.rows:,} records",
            f"{self.rows_per_second:,.0f} records/s",
            f"{self.batch_ms:,} ms",
        ]
        if self.state_rows:
            parts.append(f"state {self.state_bytes / 1_000_000:,.1f} MB")
        if self.lag is not None:
            parts.append(f"lag {self.lag:,}")
        return ", ".join(parts)


def pulse_of(progress: Mapping[str, Any] | None, *, active: bool) -> Pulse:
    """Of Spark's progress, which it makes after every batch."""
    if not progress:
        return Pulse(active)
    sources = progress.get("sources") or []
    operators = progress.get("stateOperators") or []
    behind = [_lag(each) for each in sources]
    known = [each for each in behind if each is not None]
    rows = records_read(progress)
    batch_ms = int(progress.get("batchDuration") or 0)
    return Pulse(
        active=active,
        batch=progress.get("batchId"),
        rows=rows,
        rows_per_second=rows * 1_000 / max(1, batch_ms),
        batch_ms=batch_ms,
        state_rows=sum(int(each.get("numRowsTotal") or 0) for each in operators),
        state_bytes=sum(int(each.get("memoryUsedBytes") or 0) for each in operators),
        lag=sum(known) if known else None,
    )


def _lag(source: Mapping[str, Any]) -> int | None:
    ends, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
    if ends is None or latest is None:
        return None
    return sum(
        max(0, offset - ends.get(topic, {}).get(partition, 0))
        for topic, partitions in latest.items()
        for partition, offset in partitions.items()
    )


def _offsets(told: Any) -> dict[str, dict[str, int]] | None:
    """Offsets by topic and partition; None for another source's, which look otherwise."""
    try:
        found = json.loads(told) if isinstance(told, str) else told
    except ValueError:
        return None
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        return None
    return found
