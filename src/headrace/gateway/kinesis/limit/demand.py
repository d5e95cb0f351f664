"""How many shards an on-demand stream needs, by what was put into it.

Pure: the caller brings the time. Loads are counted in shards: 1 is what one shard takes, 1 MiB or
1,000 records per second.

Rule 1: a stream shall be able to take twice its peak, as at the service: a load that doubles finds
room.
Rule 2: the load of one narrow range of hash keys counts as at most what one shard takes. A range is
narrower than any shard can become, so no split helps it: a key that is hot opens no shards.
Rule 3: the peak is that of the last `calm_seconds`. More shards come as soon as a window shows the
need. Fewer come when the whole time was calm, and half as many at least suffice.
Rule 4: only records that were written count. A stream whose limits refuse puts has a load that it
can just take, and gets twice that; puts that fail for other reasons, and are tried again and again,
need no shards.
Rule 5: an instance knows what passes through itself only. `records` lets the caller compare it
with the log before it takes shards away.
"""

import math
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

_SHARD_BYTES: Final = 1 << 20
_SHARD_RECORDS: Final = 1000
_SPANS: Final = 60
_KEY_BITS: Final = 128


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


class Bound(StrEnum):
    """Why a stream has fewer shards than its load asks for."""

    HOT_KEY = "hot key"
    MOST_SHARDS = "most shards"


class Wish(NamedTuple):
    """How many shards a stream should have, and what keeps it from having more."""

    shards: int
    bound: Bound | None = None


@dataclass(slots=True)
class _Window:
    """What was put in `window_seconds`, by range of hash keys."""

    number: int
    size_bytes: dict[int, int] = field(default_factory=dict)
    records: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Span:
    """The peaks and the number of records of a part of the calm time.

    Attributes:
        peak: of the load that more shards can divide.
        whole_peak: of all of it.
    """

    number: int
    peak: float = 0.0
    whole_peak: float = 0.0
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
        # At least twice as many ranges as shards.
        self._shift = _KEY_BITS - max(8, (2 * rule.most_shards).bit_length())
        self._lock = threading.Lock()
        self._streams: dict[str, _Traffic] = {}

    def count(self, stream: str, written: Iterable[tuple[int, int]], now: float) -> None:
        """Count records that were put into a stream.

        Args:
            written: the hash key and the size of each.
        """
        with self._lock:
            traffic = self._of(stream, now)
            self._turn(traffic, now)
            sizes, counts = traffic.window.size_bytes, traffic.window.records
            for key, size_bytes in written:
                at = key >> self._shift
                sizes[at] = sizes.get(at, 0) + size_bytes
                counts[at] = counts.get(at, 0) + 1
                traffic.spans[-1].records += 1

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

    def wish(
        self, stream: str, open_shards: int, least: int, age_seconds: float, now: float
    ) -> Wish:
        """Return how many shards a stream should have; `open_shards` if it is to stay as it is.

        Args:
            least: never fewer.
            age_seconds: since the last change of its shards.
        """
        with self._lock:
            traffic = self._of(stream, now)
            self._turn(traffic, now)
            peak = max(each.peak for each in traffic.spans)
            whole_peak = max(each.whole_peak for each in traffic.spans)
            watched = now - traffic.began
        if age_seconds < self._rule.window_seconds:
            return Wish(open_shards)
        most = self._rule.most_shards
        wish = max(least, min(math.ceil(2 * peak), most))
        if wish > open_shards:
            return Wish(min(wish, 2 * open_shards))
        bound = None
        if math.ceil(2 * peak) > max(most, open_shards):
            bound = Bound.MOST_SHARDS
        elif math.ceil(2 * whole_peak) > open_shards:
            bound = Bound.HOT_KEY
        is_calm = min(age_seconds, watched) >= self._rule.calm_seconds
        if is_calm and 2 * wish <= open_shards:
            return Wish(max(wish, -(-open_shards // 2)), bound)
        return Wish(open_shards, bound)

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
            span, window = traffic.spans[-1], traffic.window
            span.peak = max(span.peak, self._load(window, self._rule.window_seconds))
            span.whole_peak = max(span.whole_peak, self._load(window, math.inf))
            traffic.window = _Window(number)

    def _load(self, window: _Window, most: float) -> float:
        """Return the load per second in shards; that of each range is `most` in all, or less."""
        size = sum(min(each, most * _SHARD_BYTES) for each in window.size_bytes.values())
        records = sum(min(each, most * _SHARD_RECORDS) for each in window.records.values())
        return max(size / _SHARD_BYTES, records / _SHARD_RECORDS) / self._rule.window_seconds
