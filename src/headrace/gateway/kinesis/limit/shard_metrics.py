"""The shard-level metrics of enhanced monitoring, as one instance counts them.

Counted only for streams that have them enabled, so that others cost nothing.
"""

import threading
from collections.abc import Callable, Collection
from typing import Final

from headrace.telemetry.reading import Reading

METRICS: Final = (
    "IncomingBytes",
    "IncomingRecords",
    "OutgoingBytes",
    "OutgoingRecords",
    "WriteProvisionedThroughputExceeded",
    "ReadProvisionedThroughputExceeded",
    "IteratorAgeMilliseconds",
)
"""In the order of the service's model. The last one is a gauge: the age at the last read."""

_GAUGE: Final = METRICS[-1]
_NAMES: Final = {
    "IncomingBytes": ("incoming_bytes", "Bytes put into a shard, keys included."),
    "IncomingRecords": ("incoming_records", "Records put into a shard."),
    "OutgoingBytes": ("outgoing_bytes", "Bytes read from a shard, keys included."),
    "OutgoingRecords": ("outgoing_records", "Records read from a shard."),
    "WriteProvisionedThroughputExceeded": ("write_exceeded", "Records that a limit refused."),
    "ReadProvisionedThroughputExceeded": ("read_exceeded", "Reads that a limit refused."),
    "IteratorAgeMilliseconds": ("iterator_age_milliseconds", "How far the last read was behind."),
}

Enabled = Callable[[str], Collection[str]]
"""Returns the metrics that a stream has enabled; none of a stream that is gone."""


class ShardMetrics:
    """Counts per metric, stream and shard. Threads: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._figures: dict[str, dict[tuple[str, ...], float]] = {name: {} for name in METRICS}

    def count(
        self, enabled: Collection[str], stream: str, shard_id: str, figures: dict[str, float]
    ) -> None:
        """Add figures by metric, those that are enabled."""
        if not enabled:
            return
        key = (stream, shard_id)
        with self._lock:
            for name, figure in figures.items():
                if name in enabled:
                    before = 0.0 if name == _GAUGE else self._figures[name].get(key, 0.0)
                    self._figures[name][key] = before + figure

    def readings(self, enabled: Enabled) -> list[Reading]:
        """Return the figures for Prometheus, and forget those that are disabled by now."""
        return [self._reading(name, enabled) for name in METRICS]

    def _reading(self, name: str, enabled: Enabled) -> Reading:
        def read() -> dict[tuple[str, ...], float]:
            with self._lock:
                kept = {
                    key: figure
                    for key, figure in self._figures[name].items()
                    if name in enabled(key[0])
                }
                self._figures[name] = kept
                return dict(kept)

        short, doc = _NAMES[name]
        make = Reading.gauge if name == _GAUGE else Reading.counter
        return make(f"headrace_kinesis_shard_{short}", doc, read, "stream", "shard")
