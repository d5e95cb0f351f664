"""What a broker counts while it serves; `operation.metrics_page` shows it.

Hot paths add to plain integers; Prometheus' own types are made when /metrics is scraped.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.broker.refused_part import refused_in
from headrace.telemetry.histogram import Histogram

FETCH_FOLLOWER: Final = "FetchFollower"
"""How the times of followers' fetches are labelled: Kafka keeps them apart, too."""

OTHER_TOPICS: Final = ""
"""The label of all topics together that have no series of their own."""

# Parts of a response that are looked at for errors: a list of 10,000 topics must not cost more.
_MAX_PARTS = 64


class TopicTraffic:
    """What clients write to and read from one topic, on this broker."""

    __slots__ = ("bytes_in", "bytes_out", "records_in")

    def __init__(self) -> None:
        self.bytes_in = 0
        self.bytes_out = 0
        self.records_in = 0

    def add(self, other: "TopicTraffic") -> None:
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out
        self.records_in += other.records_in


class RequestTimes(Histogram):
    """How long the requests of one API took, from their arrival to their answer.

    Attributes:
        loop_seconds: the event loop's time in them.
    """

    __slots__ = ("loop_seconds",)

    def __init__(self) -> None:
        super().__init__()
        self.loop_seconds = 0.0


class BrokerMetrics:
    """All counters of one broker. Lives on the event loop.

    Args:
        max_topics: how many topics have series of their own: the first ones with traffic.

    Attributes:
        failures: requests that failed through a mistake of ours, by API.
        errors: error codes in responses, by API and code.
        times: how long requests took, by API.
    """

    def __init__(self, max_topics: int = 500) -> None:
        self.requests: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.errors: Counter[tuple[str, int]] = Counter()
        self.times: defaultdict[str, RequestTimes] = defaultdict(RequestTimes)
        self.replicated_bytes = 0
        self.replication_sent_bytes = 0
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.leader_elections = 0
        self.unclean_leader_elections = 0
        self._max_topics = max_topics
        self._topics: dict[str, TopicTraffic] = {}
        self._shown: set[str] = set()
        self._deleted = TopicTraffic()

    def topic(self, name: str) -> TopicTraffic:
        """Return the counters of a topic; they live until it is deleted."""
        return self._topics.setdefault(name, TopicTraffic())

    def forget_topic(self, name: str) -> None:
        """Drop the series of a deleted topic; totals keep what was counted."""
        self._shown.discard(name)
        traffic = self._topics.pop(name, None)
        if traffic is not None:
            self._deleted.add(traffic)

    def count_errors(self, api: str, fields: Mapping[str, Any]) -> None:
        """Count the error codes of a response, in its first parts."""
        for each in refused_in(fields, _MAX_PARTS):
            self.errors[api, each.code] += 1

    def traffic(self) -> "Traffic":
        """Return what was written and read since the start. Deleted topics count in the total."""
        total, rest, shown = TopicTraffic(), TopicTraffic(), {}
        total.add(self._deleted)
        for name, traffic in self._topics.items():
            if not (traffic.bytes_in or traffic.bytes_out):
                continue
            total.add(traffic)
            if name in self._shown or len(self._shown) < self._max_topics:
                self._shown.add(name)
                shown[name] = traffic
            else:
                rest.add(traffic)
        if rest.bytes_in or rest.bytes_out:
            shown[OTHER_TOPICS] = rest
        return Traffic(total, shown)


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic of all topics together, and of each that has series of its own."""

    total: TopicTraffic
    by_topic: Mapping[str, TopicTraffic]
