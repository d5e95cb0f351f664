"""What a process lands, as metrics."""

from collections.abc import Callable, Iterable
from typing import Final

from headrace.landing.configured.topic_landing import TopicLanding
from headrace.model.clock import SystemClock
from headrace.telemetry.reading import Labels, Reading

_LABELS: Final = ("topic", "table")
Landings = Callable[[], Iterable[TopicLanding]]


def readings(landings: Landings) -> list[Reading]:
    """Return the metrics of all topics of a process.

    Args:
        landings: returns them; called in the thread that serves the metrics.
    """

    def each(figure: Callable[[TopicLanding], float | None]) -> Callable[[], dict[Labels, float]]:
        def read() -> dict[Labels, float]:
            found: dict[Labels, float] = {}
            for landing in landings():
                value = figure(landing)
                if value is not None:
                    configured = landing.configured
                    found[configured.name, str(configured.table.name)] = value
            return found

        return read

    def counter(name: str, doc: str, figure: Callable[[TopicLanding], float | None]) -> Reading:
        return Reading.counter(f"headrace_land_{name}", doc, each(figure), *_LABELS)

    def gauge(name: str, doc: str, figure: Callable[[TopicLanding], float | None]) -> Reading:
        return Reading.gauge(f"headrace_land_{name}", doc, each(figure), *_LABELS)

    return [
        counter("rows", "Rows added, or changes made.", lambda each: each.counts().rows),
        counter("commits", "Commits of tables.", lambda each: each.counts().commits),
        counter(
            "dead_letters", "Records that are no rows.", lambda each: each.counts().dead_letters
        ),
        counter("failures", "Turns that failed.", lambda each: each.counts().failures),
        gauge("table_rows", "Rows of the table.", lambda each: each.rows),
        gauge("lag", "Offsets of the topic that the table lacks.", lambda each: each.lag),
        gauge("age_seconds", "How long ago the table had all records of the topic.", _age),
        gauge(
            "failing", "1 while a table cannot be filled.", lambda each: each.problem is not None
        ),
    ]


def _age(landing: TopicLanding) -> float | None:
    at = landing.complete_ms
    return None if at is None else max(0, SystemClock().wall_ms() - at) / 1000
