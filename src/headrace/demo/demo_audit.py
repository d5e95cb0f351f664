"""The audit of the demo: whether every flow has read everything that the site wrote."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.audit.feed import AuditFeed
from headrace.audit.reconciliation import SOURCE_TIER, Reconciliation
from headrace.audit.record import AuditRecord
from headrace.client.settings import ClientSettings
from headrace.demo.expected_answers import AnswerCheck, Key
from headrace.demo.topic import ACCESS, PROFILES, VIEWS

BUCKET_MS: Final = 10_000
SETTINGS: Final = {"audit": "on", "audit.bucketMs": str(BUCKET_MS)}
"""The options with which flows count for the audit."""

TIERS: Final[Mapping[str, tuple[str, ...]]] = {
    VIEWS: ("page-count", "countries", f"land-{VIEWS}"),
    ACCESS: ("access-log",),
    PROFILES: ("countries",),
}
"""The flows that read each topic. A view is in two topics: from the Kafka client and the agent."""

# After this time the slowest flow has read a bucket, unless the machine is overloaded.
_GRACE_MS: Final = 15_000
_FOR_EVER_MS: Final = 2**60
_OF_VIEWS: Final = (VIEWS, ACCESS)


@dataclass(frozen=True, slots=True)
class AuditStatus:
    """The audit so far.

    Attributes:
        views: in the buckets that flows have passed.
        tiers: how many pairs of topic and flow were compared.
        percent: the part of the records that reached the flows.
    """

    views: int
    tiers: int
    percent: float


class DemoAudit:
    """Adds up the counts of the audit topic. For one thread.

    Example:
        audit.read_new()
        print(audit.status(now_ms).percent)
    """

    def __init__(self, address: str) -> None:
        settings = ClientSettings.of({"bootstrap.servers": address})
        self._feed = AuditFeed(settings, since_ms=0)
        self._reconciliation = Reconciliation()

    def read_new(self) -> None:
        """Add the counts that were written since the last call.

        Raises:
            ClientError: the topic cannot be read.
        """
        self.add(self._feed.take())

    def add(self, records: Iterable[AuditRecord]) -> None:
        self._reconciliation.add(records)

    def close(self) -> None:
        self._feed.close()

    def status(self, now_ms: int) -> AuditStatus:
        rows = [
            row
            for row in self._reconciliation.rows(
                now_ms=now_ms, grace_ms=_GRACE_MS, topics=_OF_VIEWS
            )
            if row.final
        ]
        newest: dict[tuple[str, str], int] = {}
        for row in rows:
            for tier in row.tiers:
                if tier.count:
                    key = row.topic, tier.tier
                    newest[key] = max(newest.get(key, 0), row.bucket_ms)
        # A flow that is behind has lost nothing: compare only buckets that it has passed.
        counts = [
            (row, tier)
            for row in rows
            for tier in row.tiers
            if row.bucket_ms + BUCKET_MS < newest.get((row.topic, tier.tier), 0)
        ]
        expected = sum(row.sent for row, _ in counts)
        there = sum(min(tier.count, row.sent) for row, tier in counts)
        return AuditStatus(
            views=sum(
                {row.bucket_ms: row.sent for row, _ in counts if row.topic == VIEWS}.values()
            ),
            tiers=len({(row.topic, tier.tier) for row, tier in counts}),
            percent=100 * there / expected if expected else 100.0,
        )

    def check(self, views: int) -> AnswerCheck:
        """Compare what every flow counted with what was sent, per bucket, once the site is closed.

        Args:
            views: how many the site wrote.
        """
        sent: dict[str, int] = dict.fromkeys(TIERS, 0)
        expected: dict[Key, int] = {}
        actual: dict[Key, int] = {}
        for row in self._reconciliation.rows(now_ms=_FOR_EVER_MS, grace_ms=0, topics=TIERS):
            sent[row.topic] += row.sent
            counts = {each.tier: each.count for each in row.tiers}
            for tier in {*TIERS[row.topic], *counts}:
                expected[row.topic, tier, row.bucket_ms] = row.sent
                actual[row.topic, tier, row.bucket_ms] = counts.get(tier, 0)
        for topic in _OF_VIEWS:
            expected[topic, SOURCE_TIER] = views
            actual[topic, SOURCE_TIER] = sent[topic]
        return AnswerCheck.of(expected, actual)
