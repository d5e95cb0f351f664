"""What a broker counts. Names carry their units; one registry per broker, served at /metrics.

Hot paths add to plain integers; Prometheus' own types are made, and its library is loaded, only
when /metrics is scraped.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import Metric


def load_prometheus() -> None:
    """Import the library, which takes a while, ahead of the first scrape."""
    import prometheus_client  # noqa: F401


@dataclass(frozen=True, slots=True)
class Reading:
    """One figure that is read when /metrics is scraped: its name, what it means, how to get it."""

    name: str
    doc: str
    read: Callable[[], float]
    counts_up: bool = False


class BrokerMetrics:
    """All counters of one broker. Lives on the event loop."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.produced_bytes = 0
        self.replicated_bytes = 0
        self.fetched_bytes = 0
        self._readings: list[Reading] = [
            Reading(
                "headrace_produced_bytes",
                "Bytes of record batches appended for clients.",
                lambda: self.produced_bytes,
                counts_up=True,
            ),
            Reading(
                "headrace_replicated_bytes",
                "Bytes of record batches copied from leaders.",
                lambda: self.replicated_bytes,
                counts_up=True,
            ),
            Reading(
                "headrace_fetched_bytes",
                "Bytes of record batches sent to clients.",
                lambda: self.fetched_bytes,
                counts_up=True,
            ),
        ]

    def add(self, reading: Reading) -> None:
        self._readings.append(reading)

    def render(self) -> bytes:
        """Return all figures in Prometheus' text format."""
        from prometheus_client import CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)

    def collect(self) -> "Iterable[Metric]":
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        requests = CounterMetricFamily(
            "headrace_requests", "Requests received, by API.", labels=["api"]
        )
        for api, count in self.requests.items():
            requests.add_metric([api], count)
        yield requests
        failures = CounterMetricFamily(
            "headrace_request_failures",
            "Requests that failed through a mistake of ours, by API.",
            labels=["api"],
        )
        for api, count in self.failures.items():
            failures.add_metric([api], count)
        yield failures
        for reading in self._readings:
            family = CounterMetricFamily if reading.counts_up else GaugeMetricFamily
            yield family(reading.name, reading.doc, value=reading.read())
