"""The demo's topology over the access log: views per page and minute, and failing pages."""

import re
from collections.abc import Iterable
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from headrace.demo.demo_audit import SETTINGS
from headrace.demo.topic import ACCESS, ALERTS, MINUTES
from headrace.flow.plan.aggregate import Aggregate
from headrace.flow.plan.plan import Plan
from headrace.flow.runtime.work import Emit
from headrace.flow.storm.bolt import StatefulBolt
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.spout import TopicSpout
from headrace.flow.storm.topology import Topology

NAME = "access-log"
MINUTE_MS = 60_000
ALERT_MS = 10_000
ALERT_FAILURES = 10

_LINE = re.compile(r'\S+ \S+ \S+ \[([^]]+)\] "\S+ (\S+) [^"]*" (\d{3}) \S+')
_TIME = "%d/%b/%Y:%H:%M:%S %z"
# Lines come at most seconds late, so that counts of older intervals are no longer needed.
_KEPT = 6


def parse(line: str) -> tuple[str, int, int, int]:
    """Return page, minute, alert interval and status. Anything but a line of the log raises, and is
    written to the dead-letter topic.

    >>> parse('127.0.0.1 - ada [01/Jan/1970:00:01:15 +0000] "GET /home HTTP/1.1" 200 -')
    ('/home', 60000, 70000, 200)
    """
    fields = _LINE.fullmatch(line)
    if fields is None:
        raise ValueError(f"not a line of an access log: {line[:200]!r}")
    at_ms = int(datetime.strptime(fields[1], _TIME).timestamp()) * 1_000
    return fields[2], at_ms - at_ms % MINUTE_MS, at_ms - at_ms % ALERT_MS, int(fields[3])


class KeepsFailing(StatefulBolt):
    """Emits one alert per page and interval in which the page failed often."""

    def __init__(self, failures: int = ALERT_FAILURES) -> None:
        self._failures = failures

    def execute(self, batch: pa.RecordBatch, emit: Emit) -> None:
        failed = batch.filter(pc.greater_equal(batch["status"], 500))
        pages, starts = failed["page"].to_pylist(), failed["start_ms"].to_pylist()
        alerts = list(self._alerts(zip(pages, starts, strict=True)))
        if alerts:
            emit(list(zip(*alerts, strict=True)))

    def _alerts(self, failures: Iterable[tuple[str, int]]) -> Iterable[tuple[str, int, int]]:
        for page, start_ms in failures:
            counts = dict(self.state.get(page, {}))
            counts[start_ms] = counts.get(start_ms, 0) + 1
            if counts[start_ms] == self._failures:
                yield page, start_ms, self._failures
            newest = sorted(counts)[-_KEPT:]
            self.state.put(page, {each: counts[each] for each in newest})


def access_plan(brokers: str) -> Plan:
    topology = Topology(NAME, settings=SETTINGS)
    topology.spout("lines", TopicSpout(ACCESS, brokers=brokers, fields="value STRING"))
    parsed = "page STRING, minute_ms BIGINT, start_ms BIGINT, status INT"
    topology.bolt("parse", parse, output=parsed).shuffle("lines")
    by_minute = Aggregate(("page", "minute_ms"), views="count")
    topology.bolt("minutes", by_minute).fields("parse", "page", "minute_ms")
    alert = "page STRING, start_ms BIGINT, failures BIGINT"
    topology.bolt("failing", KeepsFailing(), output=alert).fields("parse", "page")
    topology.sink("to-minutes", TopicSink(MINUTES, key="page")).shuffle("minutes")
    topology.sink("to-alerts", TopicSink(ALERTS, key="page")).shuffle("failing")
    return topology.plan()
