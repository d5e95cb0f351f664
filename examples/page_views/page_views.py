"""Page views per page and minute, and an alert on pages that fail.

One topic is read once and used twice: for totals, and for a bolt that keeps the last views of each
page. The bolt emits one alert when too many of them failed, and no other until the page recovers.
"""

from datetime import datetime

import pyarrow as pa

from headrace.flow import Aggregate, Emit
from headrace.flow.storm import StatefulBolt, TopicSink, TopicSpout, Topology

LOOKED_AT = 20
FAILING = 0.5
ENOUGH = 4


def minute(page: str, status: int, at: datetime) -> tuple[str, str, int]:
    return page, at.strftime("%Y-%m-%dT%H:%M"), int(status >= 500)


class FailureAlert(StatefulBolt):
    """Alerts when at least half of a page's last views failed."""

    def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
        pages, moments, shares = [], [], []
        for row in batch.to_pylist():
            seen = self.state.get(row["page"], {"last": [], "failing": False})
            last = [*seen["last"], row["failed"]][-LOOKED_AT:]
            share = sum(last) / len(last)
            failing = len(last) >= ENOUGH and share >= FAILING
            if failing and not seen["failing"]:
                pages.append(row["page"])
                moments.append(row["minute"])
                shares.append(share)
            self.state.put(row["page"], {"last": last, "failing": failing})
        if pages:
            emit([pages, moments, shares])


def topology(
    brokers: str,
    views: str = "page-views",
    counts: str = "page-minutes",
    alerts: str = "page-alerts",
) -> Topology:
    made = Topology("page-views")
    fields = "page STRING, status INT, at TIMESTAMP"
    made.spout("views", TopicSpout(views, brokers=brokers, fields=fields, format="json"))
    made.bolt("minute", minute, output="page STRING, minute STRING, failed INT").shuffle("views")
    totals = Aggregate(["page", "minute"], views="count", failures="sum(failed)")
    made.bolt("totals", totals, parallelism=2).fields("minute", "page")
    made.bolt(
        "watch", FailureAlert(), output="page STRING, minute STRING, share DOUBLE", parallelism=2
    ).fields("minute", "page")
    made.sink("counts", TopicSink(counts, key="page")).shuffle("totals")
    made.sink("alerts", TopicSink(alerts, key="page")).shuffle("watch")
    return made
