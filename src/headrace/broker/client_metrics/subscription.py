"""Which metrics a client should push, and how often: the subscriptions that match it, together.

Every broker computes the same for a client from the same subscriptions, so that a client may ask
one broker and push to another. The id of what a client should push is a checksum over it: a client
with another id asks again.
"""

import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.model.client_metrics_config import (
    CLIENT_METRICS_CONFIG,
    DEFAULT_INTERVAL_MS,
    INTERVAL_MS,
    MATCH,
    METRICS,
    match_patterns,
)

ALL_METRICS = "*"


@dataclass(frozen=True, slots=True)
class Subscription:
    """One subscription, as it was configured."""

    metrics: tuple[str, ...]
    interval_ms: int
    match: Mapping[str, re.Pattern[str]]

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> "Subscription":
        """Return the subscription of the texts that a user wrote."""
        values = CLIENT_METRICS_CONFIG.defaults() | CLIENT_METRICS_CONFIG.parse(texts)
        metrics, interval_ms = values[METRICS], values[INTERVAL_MS]
        assert isinstance(metrics, tuple)
        assert isinstance(interval_ms, int)
        return cls(metrics, interval_ms, match_patterns(values[MATCH]))

    def matches(self, client: Mapping[str, str]) -> bool:
        """Return whether every pattern fits the client, whole, as in Kafka."""
        return all(
            pattern.fullmatch(client.get(name, "")) is not None
            for name, pattern in self.match.items()
        )


@dataclass(frozen=True, slots=True)
class Demand:
    """What one client should push.

    Attributes:
        metrics: the beginnings of the metrics' names; `ALL_METRICS` alone for all, none for none.
    """

    metrics: tuple[str, ...] = ()
    interval_ms: int = DEFAULT_INTERVAL_MS

    @classmethod
    def of(cls, subscriptions: Iterable[Subscription], client: Mapping[str, str]) -> "Demand":
        """Return all that the subscriptions which match a client ask of it, at their shortest
        interval."""
        matching = [each for each in subscriptions if each.metrics and each.matches(client)]
        if not matching:
            return cls()
        metrics = sorted({name for each in matching for name in each.metrics})
        if ALL_METRICS in metrics:
            metrics = [ALL_METRICS]
        return cls(tuple(metrics), min(each.interval_ms for each in matching))

    @property
    def subscription_id(self) -> int:
        """0 for nothing at all; otherwise a checksum, as a signed int32."""
        if not self.metrics:
            return 0
        text = f"{self.interval_ms}\0" + "\0".join(self.metrics)
        return int.from_bytes(zlib.crc32(text.encode()).to_bytes(4), signed=True)

    def wants(self, metric: str) -> bool:
        """Return whether a metric was asked for."""
        return self.metrics == (ALL_METRICS,) or metric.startswith(self.metrics)
