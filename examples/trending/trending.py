"""Trending topics: the most frequent tags of the last minute, ranked every ten seconds.

Several tasks count, divided by tag, and send their best to one task that ranks them all. Windows
use the time of the records, so a replay of yesterday gives the same ranking.
"""

import pyarrow as pa

from headrace.flow import Emit, TimeWindow, Window
from headrace.flow.storm import StatefulBolt, TopicSink, TopicSpout, Topology

BEST = 5
WINDOWS_KEPT = 100


def count(window: Window, emit: Emit) -> None:
    """Emit the best tags of this task in a window that has closed."""
    counted = window.tuples["tag"].value_counts().to_pylist()
    best = sorted(counted, key=lambda each: (-each["counts"], each["values"]))[:BEST]
    emit(
        [
            [window.end_ms] * len(best),
            [each["values"] for each in best],
            [each["counts"] for each in best],
        ]
    )


class Rank(StatefulBolt):
    """Ranks the tags of all tasks. Tasks close a window one by one, so it may be emitted again."""

    def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
        changed = {}
        for row in batch.to_pylist():
            end = row["end_ms"]
            best = changed.get(end) or self.state.get(end, {})
            changed[end] = {**best, row["tag"]: row["n"]}
        for end, counts in sorted(changed.items()):
            best = sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:BEST]
            self.state.put(end, dict(best))
            emit([[end], [[f"{tag} {n}" for tag, n in best]]])
        for end in sorted(end for end, _ in self.state.items())[:-WINDOWS_KEPT]:
            self.state.delete(end)


def topology(brokers: str, tags: str = "tags", trends: str = "trends") -> Topology:
    made = Topology("trending")
    made.spout(
        "tags", TopicSpout(tags, brokers=brokers, fields="tag STRING, at BIGINT", format="json")
    )
    made.bolt(
        "count",
        count,
        output="end_ms BIGINT, tag STRING, n BIGINT",
        parallelism=2,
        window=TimeWindow(60, slide_seconds=10, timestamp="at", lag_seconds=5),
    ).fields("tags", "tag")
    made.bolt("rank", Rank(), output="end_ms BIGINT, best ARRAY<STRING>").global_("count")
    made.sink("trends", TopicSink(trends, key="end_ms")).shuffle("rank")
    return made
