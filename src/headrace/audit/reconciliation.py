"""The counts of all tiers compared: pure, fed with audit records in any order.

The tier `producer` is what should be everywhere. Where it did not count, the tier that saw most
stands in for it, and cannot show what was lost before it. A bucket is *final* when it ended
longer ago than the grace time: only then is a missing count a loss, and not merely late.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from headrace.audit.record import AuditRecord

SOURCE_TIER: Final = "producer"
# What a tier counts within so long after its first count belongs to its beginning.
_BEGINNING_MS: Final = 60_000
# Buckets that are kept; the oldest go first. A day of 10-minute buckets of a hundred topics fits.
MOST_BUCKETS: Final = 50_000
_MOST_SEEN: Final = 500_000
_MOST_BEGINNINGS: Final = 1_000


@dataclass(slots=True)
class _Count:
    count: int = 0
    last_ms: int = 0


@dataclass(frozen=True, slots=True)
class TierCount:
    """What one tier saw of a bucket.

    Attributes:
        delay_ms: how much later than at the source the last record was counted here.
    """

    tier: str
    count: int
    percent: float
    delay_ms: int


@dataclass(frozen=True, slots=True)
class AuditRow:
    """The counts of one topic and bucket."""

    topic: str
    bucket_ms: int
    length_ms: int
    final: bool
    sent: int
    tiers: tuple[TierCount, ...]

    @property
    def lost(self) -> int:
        """The most that a tier lacks; 0 while the bucket is not final."""
        if not self.final:
            return 0
        return max([0, *(self.sent - each.count for each in self.tiers)])

    def as_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "bucket_ms": self.bucket_ms,
            "length_ms": self.length_ms,
            "settled": self.final,
            "sent": self.sent,
            "lost": self.lost,
            "tiers": [
                {
                    "tier": each.tier,
                    "count": each.count,
                    "percent": each.percent,
                    "delay_ms": each.delay_ms,
                }
                for each in self.tiers
            ],
        }


@dataclass(slots=True)
class Reconciliation:
    """All counts so far."""

    _buckets: dict[tuple[str, int, int], dict[str, _Count]] = field(default_factory=dict)
    _seen: dict[tuple[str, int, str, int], None] = field(default_factory=dict)
    _first_ms: dict[tuple[str, str], int] = field(default_factory=dict)
    _begun: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)
    _first_sequence: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, records: Iterable[AuditRecord]) -> None:
        for each in records:
            name = (each.instance, each.sequence, each.topic, each.bucket_ms)
            if name in self._seen:
                continue
            self._seen[name] = None
            if len(self._seen) > _MOST_SEEN:
                del self._seen[next(iter(self._seen))]
            tiers = self._buckets.setdefault((each.topic, each.bucket_ms, each.length_ms), {})
            count = tiers.setdefault(each.tier, _Count())
            count.count += each.count
            count.last_ms = max(count.last_ms, each.last_ms)
            self._note_beginning(each)
        while len(self._buckets) > MOST_BUCKETS:
            del self._buckets[min(self._buckets, key=lambda key: key[1])]

    def _note_beginning(self, record: AuditRecord) -> None:
        whose = (record.topic, record.tier)
        self._first_ms[whose] = min(self._first_ms.get(whose, record.last_ms), record.last_ms)
        reader = (record.topic, record.instance)
        first = self._first_sequence.setdefault(reader, record.sequence)
        if len(self._first_sequence) > _MOST_SEEN:
            del self._first_sequence[next(iter(self._first_sequence))]
        # A reader that goes on after a restart has counted what lies before.
        if record.begins and record.sequence <= first:
            begun = self._begun.setdefault(whose, {})
            at_ms = begun.get(record.bucket_ms, record.last_ms)
            begun[record.bucket_ms] = min(at_ms, record.last_ms)
            if len(begun) > _MOST_BEGINNINGS:
                del begun[max(begun, key=lambda bucket_ms: begun[bucket_ms])]

    def _began_ms(self, topic: str, tier: str) -> int | None:
        """Return the bucket in which a tier began to count a topic, if not from the start.

        A tier that is started again marks a beginning too; its earlier counts rule that one out.
        """
        until_ms = self._first_ms.get((topic, tier), 0) + _BEGINNING_MS
        begun = self._begun.get((topic, tier), {})
        return max((bucket for bucket, at_ms in begun.items() if at_ms <= until_ms), default=None)

    def rows(
        self, *, now_ms: int, grace_ms: int, since_ms: int = 0, topics: Iterable[str] = ()
    ) -> list[AuditRow]:
        """Return every bucket from `since_ms` on, by topic, the newest first.

        A tier that counts a topic in one of them is expected in all of them; one that began in the
        middle of a bucket, in those after it.
        """
        chosen_topics = set(topics)
        chosen = {
            key: tiers
            for key, tiers in self._buckets.items()
            if key[1] + key[2] > since_ms and (not chosen_topics or key[0] in chosen_topics)
        }
        expected: dict[str, dict[str, int | None]] = defaultdict(dict)
        for (topic, _, _), tiers in chosen.items():
            for tier in tiers:
                if tier not in expected[topic]:
                    expected[topic][tier] = self._began_ms(topic, tier)
        rows = []
        for (topic, bucket_ms, length_ms), tiers in chosen.items():
            asked = {
                tier
                for tier, began_ms in expected[topic].items()
                if tier == SOURCE_TIER or began_ms is None or began_ms < bucket_ms
            }
            final = bucket_ms + length_ms + grace_ms <= now_ms
            rows.append(_row((topic, bucket_ms, length_ms), tiers, asked, final))
        return sorted(rows, key=lambda row: (row.topic, -row.bucket_ms))


def _row(
    key: tuple[str, int, int], tiers: dict[str, _Count], expected: set[str], final: bool
) -> AuditRow:
    topic, bucket_ms, length_ms = key
    source = tiers.get(SOURCE_TIER)
    if source is None and SOURCE_TIER not in expected:
        source = max(tiers.values(), key=lambda each: each.count)
    sent = 0 if source is None else source.count
    sent_ms = 0 if source is None else source.last_ms
    counts = []
    for tier in sorted(expected - {SOURCE_TIER}):
        count = tiers.get(tier, _Count())
        percent = round(100 * count.count / sent, 3) if sent else 100.0
        delay_ms = max(count.last_ms - sent_ms, 0) if count.count and sent_ms else 0
        counts.append(TierCount(tier, count.count, percent, delay_ms))
    return AuditRow(topic, bucket_ms, length_ms, final, sent, tuple(counts))
