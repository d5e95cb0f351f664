"""How many shards an on-demand stream needs, by what was put into it.

Pure: the caller brings the time. Loads are counted in shards: 1 is what one shard takes, 1 MiB or
1,000 records per second.

Rule 1: a stream shall be able to take twice its peak, as at the service. So a load that doubles
finds room, and one key that is hot alone opens no shards: they would not help it.
Rule 2: the peak is that of the last `calm_seconds`. More shards come as soon as a window shows the
need. Fewer come when the whole time was calm, and half as many at least suffice.
Rule 3: puts that were refused count: they are what the stream should have taken.
Rule 4: an instance knows what passes through itself only. `records` lets the caller compare it
with the log before it takes shards away.
"""

import math
import threading
from collections import deque
from dataclasses import dataclass
from typing import Final

_SHARD_BYTES: Final = 1 << 20
_SHARD_RECORDS: Final = 1000
_SPANS: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRule:
    """When on-demand streams scale.

    Attributes:
        window_seconds: over which a load is averaged; also the least time between two changes.
        calm_seconds: how long the load must have been low before shards are merged.
        most_shards: beyond which no stream grows by itself; the service's 200 MiB per second.
    """

    window_seconds: float = 10.0
    calm_seconds: float = 3600.0
    most_shards: int = 200


@dataclass(slots=True)
class _Window:
    number: int
    size_bytes: int = 0
    records: int = 0


@dataclass(slots=True)
class _Span:
    """The peak and the number of records of a part of the calm time."""

    number: int
    peak: float = 0.0
    records: int = 0


class _Traffic:
    __slots__ = ("began", "spans", "window")

    def __init__(self, now: float) -> None:
        self.began = now
        self.window = _Window(-1)
        self.spans: deque[_Span] = deque(maxlen=_SPANS + 1)


class Demand:
    """The traffic of all on-demand streams of one instance. Threads: any."""

    def __init__(self, rule: ScalingRule) -> None:
        self._rule = rule
        self._lock = threading.Lock()
        self._streams: dict[str, _Traffic] = {}

    def count(self, stream: str, records: int, size_bytes: int, now: float) -> None:
        """Count what is to be put into a stream."""
        with self._lock:
            traffic = self._of(stream, now)
            self._turn(traffic, now)
            traffic.window.size_bytes += size_bytes
            traffic.window.records += records
            traffic.spans[-1].records += records

    def keep_only(self, streams: set[str]) -> None:
        """Forget all other streams."""
        with self._lock:
            self._streams = {name: each for name, each in self._streams.items() if name in streams}

    def records(self, stream: str, now: float) -> int:
        """Return how many records were counted in the calm time."""
        with self._lock:
            traffic = self._of(stream, now)
            self._turn(traffic, now)
            return sum(each.records for each in traffic.spans)

    def wished_shards(
        self, stream: str, open_shards: int, least: int, age_seconds: float, now: float
    ) -> int:
        """Return how many shards a stream should have; `open_shards` if it is to stay as it is.

        Args:
            least: never fewer.
            age_seconds: since the last change of its shards.
        """
        with self._lock:
            traffic = self._of(stream, now)
            self._turn(traffic, now)
            peak = max(each.peak for each in traffic.spans)
            watched = now - traffic.began
        if age_seconds < self._rule.window_seconds:
            return open_shards
        wish = max(least, min(math.ceil(2 * peak), self._rule.most_shards))
        if wish > open_shards:
            return min(wish, 2 * open_shards)
        is_calm = min(age_seconds, watched) >= self._rule.calm_seconds
        if is_calm and 2 * wish <= open_shards:
            return max(wish, -(-open_shards // 2))
        return open_shards

    def _of(self, stream: str, now: float) -> _Traffic:
        return self._streams.setdefault(stream, _Traffic(now))

    def _turn(self, traffic: _Traffic, now: float) -> None:
        """Begin a new window and a new span if their time has come."""
        span_seconds = self._rule.calm_seconds / _SPANS
        at = math.floor(now / span_seconds)
        if not traffic.spans or traffic.spans[-1].number != at:
            traffic.spans.append(_Span(at))
            while traffic.spans[0].number < at - _SPANS:
                traffic.spans.popleft()
        number = math.floor(now / self._rule.window_seconds)
        if traffic.window.number != number:
            traffic.spans[-1].peak = max(traffic.spans[-1].peak, self._load(traffic.window))
            traffic.window = _Window(number)

    def _load(self, window: _Window) -> float:
        size = window.size_bytes / _SHARD_BYTES
        return max(size, window.records / _SHARD_RECORDS) / self._rule.window_seconds
