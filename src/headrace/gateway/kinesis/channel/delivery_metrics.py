"""What channels have delivered, and how far they are behind, as one instance counts it."""

import threading
from collections.abc import Callable
from typing import Final

from headrace.telemetry.reading import Reading

_COUNTERS: Final = {
    "files": "Files that were written for a channel.",
    "records": "Records in these files.",
    "bytes": "Bytes of data in these records.",
    "dead_letters": "Records that were not of the channel's format.",
    "failures": "Attempts to deliver that failed.",
}
_GAUGE: Final = "delay_seconds"


class DeliveryMetrics:
    """Figures by channel. Threads: any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._figures: dict[str, dict[str, float]] = {}

    def count(self, channel: str, **figures: float) -> None:
        """Add to counters."""
        with self._lock:
            known = self._figures.setdefault(channel, {})
            for name, figure in figures.items():
                known[name] = known.get(name, 0.0) + figure

    def set_delay(self, channel: str, seconds: float) -> None:
        """Note the age of the oldest record that is in no file."""
        with self._lock:
            self._figures.setdefault(channel, {})[_GAUGE] = seconds

    def forget(self, channel: str) -> None:
        """Leave out a channel that this instance does not land any more."""
        with self._lock:
            self._figures.pop(channel, None)

    def readings(self) -> list[Reading]:
        """Return the figures for Prometheus."""
        made = [
            Reading.counter(f"headrace_kinesis_channel_{name}", doc, self._reader(name), "channel")
            for name, doc in _COUNTERS.items()
        ]
        doc = "The age of the oldest record that is in no file yet."
        gauge = Reading.gauge(
            f"headrace_kinesis_channel_{_GAUGE}", doc, self._reader(_GAUGE), "channel"
        )
        return [*made, gauge]

    def _reader(self, name: str) -> Callable[[], dict[tuple[str, ...], float]]:
        def read() -> dict[tuple[str, ...], float]:
            with self._lock:
                return {(channel,): each.get(name, 0.0) for channel, each in self._figures.items()}

        return read
