"""The audit of the demo: whether all that the site told was read by everybody who should."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from headrace.audit.feed import AuditFeed
from headrace.audit.reconciliation import SOURCE_TIER, Reconciliation
from headrace.audit.record import AuditRecord
from headrace.client.settings import ClientSettings
from headrace.demo.ledger import Check, Key
from headrace.demo.topic import ACCESS, PROFILES, VIEWS

BUCKET_MS: Final = 10_000
SETTINGS: Final = {"audit": "on", "audit.bucketMs": str(BUCKET_MS)}
"""By which flows count."""

TIERS: Final[Mapping[str, tuple[str, ...]]] = {
    VIEWS: ("page-count", "countries", f"land-{VIEWS}"),
    ACCESS: ("access-log",),
    PROFILES: ("countries",),
}
"""Who reads each topic. A view is in two of them: told by the client, and by the agent."""

# By then the slowest flow has read what a bucket holds, on a machine that is not overloaded.
_GRACE_MS: Final = 15_000
_FOR_EVER_MS: Final = 2**60
_OF_VIEWS: Final = (VIEWS, ACCESS)


@dataclass(frozen=True, slots=True)
class AuditPulse:
    """How the audit stands: the views of buckets that flows have passed, and what part of them
    reached those tiers."""

    views: int
    tiers: int
    percent: float


class AuditBoard:
    """Adds up what the audit topic has. For one thread.

    Example:
        board.look()
        print(board.pulse(now_ms).percent)
    """

    def __init__(self, address: str) -> None:
        settings = ClientSettings.of({"bootstrap.servers": address})
        self._feed = AuditFeed(settings, since_ms=0)
        self._found = Reconciliation()

    def look(self) -> None:
        """Take in what was counted since the last time.

        Raises:
            ClientError: the topic cannot be read.
        """
        self.take(self._feed.take())

    def take(self, records: Iterable[AuditRecord]) -> None:
        self._found.add(records)

    def close(self) -> None:
        self._feed.close()

    def pulse(self, now_ms: int) -> AuditPulse:
        rows = [
            row
            for row in self._found.rows(now_ms=now_ms, grace_ms=_GRACE_MS, topics=_OF_VIEWS)
            if row.settled
        ]
        newest: dict[tuple[str, str], int] = {}
        for row in rows:
            for tier in row.tiers:
                if tier.count:
                    key = row.topic, tier.tier
                    newest[key] = max(newest.get(key, 0), row.bucket_ms)
        # A flow that is behind has lost nothing: it is asked for what it has long passed.
        counts = [
            (row, tier)
            for row in rows
            for tier in row.tiers
            if row.bucket_ms + BUCKET_MS < newest.get((row.topic, tier.tier), 0)
        ]
        expected = sum(row.sent for row, _ in counts)
        there = sum(min(tier.count, row.sent) for row, tier in counts)
        return AuditPulse(
            views=sum(
                {row.bucket_ms: row.sent for row, _ in counts if row.topic == VIEWS}.values()
            ),
            tiers=len({(row.topic, tier.tier) for row, tier in counts}),
            percent=100 * there / expected if expected else 100.0,
        )

    def check(self, views: int) -> Check:
        """Whether every tier counted what was sent, in each bucket, once the site is closed.

        Args:
            views: that the site told.
        """
        sent: dict[str, int] = dict.fromkeys(TIERS, 0)
        right: dict[Key, int] = {}
        found: dict[Key, int] = {}
        for row in self._found.rows(now_ms=_FOR_EVER_MS, grace_ms=0, topics=TIERS):
            sent[row.topic] += row.sent
            counts = {each.tier: each.count for each in row.tiers}
            for tier in {*TIERS[row.topic], *counts}:
                right[row.topic, tier, row.bucket_ms] = row.sent
                found[row.topic, tier, row.bucket_ms] = counts.get(tier, 0)
        for topic in _OF_VIEWS:
            right[topic, SOURCE_TIER] = views
            found[topic, SOURCE_TIER] = sent[topic]
        return Check.of(right, found)
