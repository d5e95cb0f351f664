"""Figures that are read when Prometheus scrapes them, and Prometheus' text of them.

    readings = [Reading.gauge("headrace_topics", "Topics.", lambda: 3)]
    render(collect(readings))

The library is loaded by the first `collect`, which takes a while: `load_prometheus` in a thread
ahead of it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from headrace.telemetry.histogram import Histogram

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Labels: TypeAlias = tuple[str, ...]
Figure: TypeAlias = float | Histogram
Figures: TypeAlias = "Figure | Mapping[Labels, Figure] | None"
"""One figure, or one per values of the labels; None is left out: there is no such figure here."""


@dataclass(frozen=True, slots=True)
class Reading:
    """One metric: its name, what it means, how to get it. Prometheus adds `_total` to counters."""

    kind: Literal["gauge", "counter", "histogram"]
    name: str
    doc: str
    read: Callable[[], Figures]
    labels: Labels = ()

    @classmethod
    def gauge(cls, name: str, doc: str, read: Callable[[], Figures], *labels: str) -> "Reading":
        return cls("gauge", name, doc, read, labels)

    @classmethod
    def counter(cls, name: str, doc: str, read: Callable[[], Figures], *labels: str) -> "Reading":
        return cls("counter", name, doc, read, labels)

    @classmethod
    def histogram(cls, name: str, doc: str, read: Callable[[], Figures], *labels: str) -> "Reading":
        return cls("histogram", name, doc, read, labels)


def load_prometheus() -> None:
    """Import the library ahead of the first scrape."""
    import prometheus_client  # noqa: F401


def collect(readings: Iterable[Reading]) -> "list[Metric]":
    """Read all figures, where they live, and return them as Prometheus' types."""
    return [
        _family(reading, figures) for reading in readings if (figures := reading.read()) is not None
    ]


def process_figures() -> "list[Metric]":
    """Return memory, CPU, start and open files of this process, under Prometheus' usual names."""
    from prometheus_client import ProcessCollector

    return list(ProcessCollector(registry=None).collect())


def render(families: "list[Metric]") -> bytes:
    """Return figures in Prometheus' text format; any thread may."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.registry import Collector

    class Collected(Collector):
        def collect(self) -> "list[Metric]":
            return families

    registry = CollectorRegistry()
    registry.register(Collected())
    return generate_latest(registry)


def _family(reading: Reading, figures: Any) -> "Metric":
    from prometheus_client import core

    rows = figures.items() if reading.labels else [((), figures)]
    if reading.kind == "histogram":
        histograms = core.HistogramMetricFamily(reading.name, reading.doc, labels=reading.labels)
        for labels, histogram in rows:
            histograms.add_metric(labels, histogram.buckets(), histogram.total)
        return histograms
    kinds = {"counter": core.CounterMetricFamily, "gauge": core.GaugeMetricFamily}
    family: Any = kinds[reading.kind](reading.name, reading.doc, labels=reading.labels)
    for labels, figure in rows:
        family.add_metric(labels, figure)
    return family  # type: ignore[no-any-return]
