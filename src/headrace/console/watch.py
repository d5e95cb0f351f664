"""The cluster, looked at every few seconds, so that pages are answered at once and charts have a
past.

One thread asks; requests read the last `Sight`, which never changes once it is there. A cluster
that does not answer leaves the last sight standing, with the problem beside it. A look that takes
long makes the pause before the next one long as well: the console takes about a fifth of the time
of what it looks at, and not more.
"""

import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import Condition, Event, Thread
from typing import Final, NamedTuple, TypeVar

from headrace.client.error import ClientError
from headrace.client.network.metadata import Metadata
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import EARLIEST, LATEST, FoundOffset, list_offsets
from headrace.client.settings import ClientSettings
from headrace.console.internal import is_internal_group, is_internal_topic
from headrace.console.log_size import LogSizes, log_sizes
from headrace.console.record_size import RecordSizes
from headrace.console.series import POINTS, SeriesSet
from headrace.lag.report import GroupLag
from headrace.lag.watch import LagWatch
from headrace.model.clock import Clock, SystemClock
from headrace.model.error import HeadraceError
from headrace.model.ids import TopicPartition

_SLOW_EVERY: Final = 5
_PAUSE_PER_LOOK: Final = 4.0
_LONGEST_PAUSE_SECONDS: Final = 20.0
_MISSED_SECONDS: Final = 0.5

Extra = Callable[[], None]
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Sight:
    """Everything one look saw."""

    at_ms: int
    metadata: Metadata
    ends: dict[TopicPartition, int]
    starts: dict[TopicPartition, int]
    sizes: LogSizes
    groups: dict[str, GroupLag]
    took_ms: int
    bytes_per_record: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Past:
    """What the looks before it saw."""

    ends: SeriesSet[str] = field(default_factory=SeriesSet)
    committed: SeriesSet[tuple[str, str]] = field(default_factory=SeriesSet)
    lags: SeriesSet[tuple[str, TopicPartition]] = field(default_factory=SeriesSet)
    flow: tuple["FlowPoint", ...] = ()


class FlowPoint(NamedTuple):
    """Records and bytes a second through the whole cluster: written, and committed as read."""

    at_ms: int
    written: float
    read: float
    written_bytes: float
    read_bytes: float


class Watch:
    """The looking thread.

    Args:
        interval_seconds: from one look to the next, if it is quick.
        also: called after each look, in the same thread; it must not raise and must not take long.
    """

    def __init__(
        self,
        settings: ClientSettings,
        *,
        interval_seconds: float = 2.0,
        clock: Clock | None = None,
        also: Extra | None = None,
    ) -> None:
        self._settings = settings
        self._interval = interval_seconds
        self._clock = clock or SystemClock()
        self._also = also
        self._lag = LagWatch(settings, self._clock)
        self._record_sizes = RecordSizes()
        self._looks = 0
        self._ends: Mapping[str, int] = {}
        self._committed: Mapping[tuple[str, str], int] = {}
        self._counted_ms = 0
        self._missed = 0.0
        self._stop = Event()
        self._hurry = Event()
        self._looked = Condition()
        self._thread = Thread(target=self._run, name="console-watch", daemon=True)
        self._sight: Sight | None = None
        self.past = Past()
        self.problem: str | None = "the console has not reached the cluster yet"

    @property
    def sight(self) -> Sight:
        """The last look.

        Raises:
            ClientError: there was none that worked.
        """
        if self._sight is None:
            raise ClientError(self.problem or "the console has just started")
        return self._sight

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._hurry.set()
        if self._thread.is_alive():
            self._thread.join(timeout=30)

    def hurry(self) -> None:
        """Look again now: something was changed."""
        self._looks = 0
        self._hurry.set()

    def wait_for(self, topic: str, seconds: float = 5.0) -> None:
        """Look until a topic that was just made is there, or so many seconds have gone."""
        self.hurry()
        with self._looked:
            self._looked.wait_for(lambda: self._knows(topic), seconds)

    def _knows(self, topic: str) -> bool:
        return self._sight is not None and topic in self._sight.metadata.topics

    def missed(self) -> None:
        """Somebody asked for what the last look did not see: look again soon, but not always."""
        now = time.monotonic()
        if now - self._missed >= _MISSED_SECONDS:
            self._missed = now
            self.hurry()

    def _run(self) -> None:
        pool: ConnectionPool | None = None
        try:
            while not self._stop.is_set():
                began = time.monotonic()
                pool = pool or ConnectionPool(self._settings)
                try:
                    self._look(pool)
                    self.problem = None
                except HeadraceError as error:
                    self.problem = str(error)
                    pool.close()
                    pool = None
                with self._looked:
                    self._looked.notify_all()
                if self._also is not None:
                    self._also()
                took = time.monotonic() - began
                pause = min(took * _PAUSE_PER_LOOK, _LONGEST_PAUSE_SECONDS)
                first = self._looks <= 1
                self._hurry.wait(max(self._interval - took, self._interval if first else pause))
                self._hurry.clear()
        finally:
            self._lag.close()
            if pool is not None:
                pool.close()

    def _look(self, pool: ConnectionPool) -> None:
        began = time.monotonic()
        slowly = self._looks % _SLOW_EVERY == 0 or self._sight is None
        before = self._sight
        if slowly or before is None:
            metadata = pool.metadata()
            sizes = log_sizes(pool, sorted(metadata.brokers))
        else:
            metadata, sizes = before.metadata, before.sizes
        partitions = [
            topic.partition(index)
            for topic in metadata.topics.values()
            for index, each in topic.partitions.items()
            if each.leader >= 0
        ]
        ends = _found(pool, partitions, LATEST)
        at_ms = self._clock.wall_ms()  # when this was so: rates are told from it
        starts = _found(pool, partitions, EARLIEST) if slowly or before is None else before.starts
        if slowly:
            self._record_sizes.measure(sizes.partitions, starts, ends)
        bytes_each = self._record_sizes.means()
        if before is None:
            # The first look at commits reads minutes of them: the rest need not wait for it.
            self._sight = Sight(at_ms, metadata, ends, starts, sizes, {}, 0, bytes_each)
        groups = {each.group: each for each in self._lag.look(pool, ends)}
        took_ms = round((time.monotonic() - began) * 1000)
        sight = Sight(at_ms, metadata, ends, starts, sizes, groups, took_ms, bytes_each)
        self._remember(sight)
        self._sight = sight
        self._looks += 1

    def _remember(self, sight: Sight) -> None:
        ends: Counter[str] = Counter()
        for partition, end in sight.ends.items():
            ends[partition.topic] += end
        committed: Counter[tuple[str, str]] = Counter()
        lags: dict[tuple[str, TopicPartition], int] = {}
        for name, group in sight.groups.items():
            for each in group.partitions:
                committed[name, each.partition.topic] += each.committed
                lags[name, each.partition] = each.lag
        if self._counted_ms:
            point = self._point(sight, ends, committed)
            self.past.flow = (*self.past.flow[1 - POINTS :], point)
        self._ends, self._committed, self._counted_ms = ends, committed, sight.at_ms
        self.past.ends.add(sight.at_ms, ends)
        self.past.committed.add(sight.at_ms, committed)
        self.past.lags.add(sight.at_ms, lags)

    def _point(
        self, sight: Sight, ends: Mapping[str, int], committed: Mapping[tuple[str, str], int]
    ) -> FlowPoint:
        """What flowed since the look before; the books that programs keep do not count."""
        seconds = max((sight.at_ms - self._counted_ms) / 1000, 0.001)
        size = sight.bytes_per_record
        written = written_bytes = read = read_bytes = 0.0
        for topic, growth in _growths(ends, self._ends):
            if not is_internal_topic(topic):
                written += growth
                written_bytes += growth * size.get(topic, 0.0)
        for (group, topic), growth in _growths(committed, self._committed):
            if not is_internal_group(group):
                read += growth
                read_bytes += growth * size.get(topic, 0.0)
        rates = (each / seconds for each in (written, read, written_bytes, read_bytes))
        return FlowPoint(sight.at_ms, *rates)


def _growths(now: Mapping[K, int], before: Mapping[K, int]) -> Iterator[tuple[K, int]]:
    """How much each counter grew. One that is new, or went back, does not count."""
    for key, value in now.items():
        growth = value - before.get(key, value)
        if growth > 0:
            yield key, growth


def _found(
    pool: ConnectionPool, partitions: list[TopicPartition], time_ms: int
) -> dict[TopicPartition, int]:
    answers = list_offsets(pool, dict.fromkeys(partitions, time_ms)) if partitions else {}
    return {
        each: answer.offset for each, answer in answers.items() if isinstance(answer, FoundOffset)
    }
