"""Counts of one tier in one process, per topic and bucket of time."""

import os
import socket
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from threading import Lock
from typing import Any, Final

import numpy as np

from headrace.audit.record import DEFAULT_BUCKET_MS, AuditRecord
from headrace.model.clock import Clock, SystemClock
from headrace.model.error import InvalidArgument

# Records with arbitrary timestamps must not make a bucket each. What does not fit is counted in the
# current bucket.
MOST_BUCKETS: Final = 10_000
_FEW: Final = 16


@dataclass(slots=True)
class _Bucket:
    count: int
    last_ms: int


class Tally:
    """Counts records by their timestamps. Any thread may count.

    Args:
        begins: whether there may be records that lie before what is counted here, so that a low
            count in the first bucket of a topic is no loss.

    Example:
        tally = Tally("producer")
        tally.count("clicks", timestamp_ms)
        records = tally.take()  # what was counted since the last time
    """

    def __init__(
        self,
        tier: str,
        *,
        bucket_ms: int = DEFAULT_BUCKET_MS,
        begins: bool = False,
        clock: Clock | None = None,
    ) -> None:
        if not tier or bucket_ms < 1:
            raise InvalidArgument("a tally has the name of its tier and buckets of at least 1 ms")
        self.tier = tier
        self.bucket_ms = bucket_ms
        self.instance = f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:12]}"
        self._clock = clock or SystemClock()
        self._lock = Lock()
        self._buckets: dict[tuple[str, int], _Bucket] = {}
        self._sequence = 0
        self._begins = begins
        self._begun: set[str] = set()

    def count(self, topic: str, timestamp_ms: int, number: int = 1) -> None:
        """Count records of one time. Kafka's -1, no time, counts as now."""
        now_ms = self._clock.wall_ms()
        at_ms = now_ms if timestamp_ms < 0 else timestamp_ms
        with self._lock:
            self._add(topic, at_ms - at_ms % self.bucket_ms, number, now_ms)

    def count_column(self, topic: str, timestamps_ms: Any) -> None:
        """Count a whole numpy column of int64 times at once."""
        now_ms = self._clock.wall_ms()
        if not len(timestamps_ms):
            return
        counted = self._by_bucket(timestamps_ms, now_ms)
        with self._lock:
            for bucket_ms, number in counted:
                self._add(topic, bucket_ms, number, now_ms)

    def _by_bucket(self, times: Any, now_ms: int) -> list[tuple[int, int]]:
        least, most = int(times.min()), int(times.max())
        if least < 0:
            times = np.where(times < 0, now_ms, times)
            least, most = int(times.min()), int(times.max())
        first = least // self.bucket_ms
        if first == most // self.bucket_ms:
            # Records that are read together were mostly written together: no need to look at each.
            return [(first * self.bucket_ms, len(times))]
        last = most // self.bucket_ms
        if last - first < _FEW:
            # Comparing with a few edges is ten times as fast as dividing and sorting.
            edges = [each * self.bucket_ms for each in range(first, last + 2)]
            below = [int(np.count_nonzero(times < edge)) for edge in edges]
            counted = zip(edges, pairwise(below), strict=False)
            return [(at_ms, more - less) for at_ms, (less, more) in counted if more > less]
        buckets, counts = np.unique(times // self.bucket_ms, return_counts=True)
        return list(zip((buckets * self.bucket_ms).tolist(), counts.tolist(), strict=True))

    def take(self) -> list[AuditRecord]:
        """Return what was counted since the last call, and forget it here."""
        with self._lock:
            taken, self._buckets = self._buckets, {}
            first = self._sequence
            self._sequence += len(taken)
            beginnings = self._beginnings(taken)
        return [
            AuditRecord(
                self.tier,
                topic,
                bucket_ms,
                self.bucket_ms,
                bucket.count,
                self.instance,
                first + number,
                bucket.last_ms,
                (topic, bucket_ms) in beginnings,
            )
            for number, ((topic, bucket_ms), bucket) in enumerate(taken.items())
        ]

    def _beginnings(self, taken: Iterable[tuple[str, int]]) -> set[tuple[str, int]]:
        """Return the first bucket of each topic that had no counts before."""
        if not self._begins:
            return set()
        firsts: dict[str, int] = {}
        for topic, bucket_ms in taken:
            if topic not in self._begun:
                firsts[topic] = min(bucket_ms, firsts.get(topic, bucket_ms))
        self._begun |= firsts.keys()
        return set(firsts.items())

    def _add(self, topic: str, bucket_ms: int, number: int, now_ms: int) -> None:
        key = (topic, bucket_ms)
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= MOST_BUCKETS:
                key = (topic, now_ms - now_ms % self.bucket_ms)
            bucket = self._buckets.setdefault(key, _Bucket(0, now_ms))
        bucket.count += number
        bucket.last_ms = now_ms
