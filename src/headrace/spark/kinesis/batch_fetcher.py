"""Reads the next micro-batch of a stream, on the driver: where it ends, and its records.

The service cannot be asked where a shard ends: it answers with records only. So the driver reads
them to plan a micro-batch, and passes them to the tasks; reading them again there would cost each
shard its reads twice. AWS's own connector lets tasks decide where a micro-batch ends, and needs a
store of its own for that.

Rule 1: a micro-batch has at most `max_records` per shard and `max_bytes` in all, and is collected
for at most `max_seconds`. What is held beyond that is one page (10 MiB) per thread.
Rule 2: the shard that was read the longest time ago is read first, so that none starves when the
others use up the bytes.
Rule 3: with "available now" a shard is read until it has been at its end once, or a record came
after the query began. Shards that come from resharding are read too.
Rule 4: a stream that was deleted and created again has shards of the same ids. It is read from its
first record, and what the former one had is reported as lost.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from headrace.spark.kinesis.option import FAIL_ON_DATA_LOSS, KinesisSourceOptions
from headrace.spark.kinesis.position import SHARD_END, Position, Positions, StreamOffset
from headrace.spark.kinesis.shard_cursor import ShardCursor, ShardService
from headrace.spark.kinesis.shard_graph import continued, initial_positions, readable
from headrace.spark.kinesis.shard_listing import ListingService, ShardListing
from headrace.spark.kinesis.shard_tip import ShardTip
from headrace.spark.source.data_loss import report_loss

Records = list[Mapping[str, Any]]


class StreamService(ShardService, ListingService, Protocol):
    """What the fetcher needs of the API."""


@dataclass(frozen=True, slots=True)
class FetchedBatch:
    """A micro-batch: where it ends, and the records of each shard up to there."""

    end: StreamOffset
    records: dict[str, Records] = field(default_factory=dict)


class BatchFetcher:
    """Follows all shards of a stream.

    Threads: one caller; shards are read in threads of its own.
    """

    def __init__(
        self,
        service: StreamService,
        options: KinesisSourceOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._service = service
        self._options = options
        self._clock = clock
        self._sleep = sleep
        self._cursors: dict[str, ShardCursor] = {}
        self._listing = ShardListing(service, options.list_interval_seconds, clock)
        self._until_ms: int | None = None
        self._finished: set[str] = set()

    def initial(self) -> StreamOffset:
        """Return where a query without a checkpoint begins."""
        listing = self._listing
        listing.refresh(frozenset())
        positions = initial_positions(listing.shards, self._options.starting)
        latest = [each.id for each in listing.shards if each.id not in positions]
        if latest:
            tip = ShardTip(listing.now_ms, self._clock, self._sleep)
            with ThreadPoolExecutor(min(len(latest), self._options.threads)) as pool:
                found = pool.map(lambda each: tip.cursor(partial(self._cursor, each)), latest)
                self._cursors |= dict(zip(latest, found, strict=True))
        positions |= {each: self._cursors[each].position for each in latest}
        return StreamOffset(listing.created, positions)

    def stop_at_now(self) -> None:
        """Read only what is there now ("available now")."""
        self._until_ms = self._service.list_shards()[1]

    def has(self, offset: StreamOffset) -> bool:
        """Return whether an offset is one of the stream that there is; report a loss otherwise.

        Raises:
            DataLoss: it is not, and failOnDataLoss is true.
        """
        created = self._service.created()
        if offset.created in (None, created):
            return True
        self._report_another(offset.created, created)
        return False

    def next_batch(self, start: StreamOffset) -> FetchedBatch:
        """Return the micro-batch after `start`. It may be empty, and ends at `start` then.

        Raises:
            DataLoss: a shard is gone before its end was read, or the stream is another one, and
                failOnDataLoss is true.
            KinesisFault: the service refused a request, or was not reached.
        """
        while True:
            start = self._list(start)
            following = continued(start.shards, self._listing.shards)
            for shard in following.lost:
                self._report_loss(f"{shard} is gone before its end was read")
            waiting = [
                each
                for each in readable(following.positions, self._listing.shards)
                if each not in self._finished
            ]
            fetched = self._fetch(waiting, following.positions)
            moved = any(fetched.values()) or any(
                self._cursors[each].position == SHARD_END for each in waiting
            )
            if moved or self._until_ms is None or self._finished.issuperset(waiting):
                break
        end = following.positions | {each: self._cursors[each].position for each in waiting}
        offset = StreamOffset(start.created, end)
        return FetchedBatch(offset, {shard: found for shard, found in fetched.items() if found})

    def _list(self, start: StreamOffset) -> StreamOffset:
        """List the shards; return `start`, or the beginning of a later stream of this name."""
        ends = frozenset(each for each, position in start.shards.items() if position == SHARD_END)
        self._listing.refresh(ends)
        created = self._listing.created
        if start.created not in (None, created):
            self._report_another(start.created, created)
            self._cursors.clear()
            self._finished.clear()
            return StreamOffset(created, {})
        listed = {each.id for each in self._listing.shards}
        self._cursors = {key: each for key, each in self._cursors.items() if key in listed}
        return StreamOffset(created, start.shards)

    def _fetch(self, waiting: Sequence[str], positions: Positions) -> dict[str, Records]:
        for each in waiting:
            if each not in self._cursors or self._cursors[each].position != positions[each]:
                self._cursors[each] = self._cursor(each, positions[each])
        in_turn = sorted(waiting, key=lambda each: (self._cursors[each].fetched_at, each))
        budget = _ByteBudget(self._options.max_bytes)
        deadline = self._clock() + self._options.max_seconds
        if len(in_turn) <= 1:
            return {each: self._collect(each, budget, deadline) for each in in_turn}
        with ThreadPoolExecutor(min(len(in_turn), self._options.threads)) as pool:
            jobs = {each: pool.submit(self._collect, each, budget, deadline) for each in in_turn}
            return {each: job.result() for each, job in jobs.items()}

    def _collect(self, shard: str, budget: "_ByteBudget", deadline: float) -> Records:
        cursor = self._cursors[shard]
        found: Records = []
        while len(found) < self._options.max_records and not budget.is_spent:
            delay = cursor.ready_at - self._clock()
            if self._clock() + max(0.0, delay) > deadline:
                break
            if delay > 0:
                self._sleep(delay)
            limit = min(self._options.records_per_fetch, self._options.max_records - len(found))
            page = cursor.fetch(limit)
            if page is None:
                break
            found += page.records
            budget.take(sum(len(each["Data"]) for each in page.records))
            is_late = self._until_ms is not None and _came_after(page.records, self._until_ms)
            if cursor.is_at_end or is_late:
                self._finish(shard)
                break
        return found

    def _finish(self, shard: str) -> None:
        if self._until_ms is not None:
            self._finished.add(shard)

    def _cursor(self, shard: str, position: Position) -> ShardCursor:
        return ShardCursor(
            self._service,
            shard,
            position,
            interval_seconds=self._options.fetch_interval_seconds,
            report_loss=self._report_loss,
            clock=self._clock,
        )

    def _report_another(self, former: str | None, created: str | None) -> None:
        self._report_loss(
            f"the stream that was read, created at {former}, was deleted and created again at"
            f" {created}"
        )

    def _report_loss(self, what: str) -> None:
        what = f"{self._options.connection.stream}: {what}"
        report_loss(what, fail=self._options.fail_on_data_loss, option=FAIL_ON_DATA_LOSS)


class _ByteBudget:
    """Bytes that all threads of a micro-batch share."""

    def __init__(self, most_bytes: int) -> None:
        self._left = most_bytes
        self._lock = threading.Lock()

    def take(self, count: int) -> None:
        with self._lock:
            self._left -= count

    @property
    def is_spent(self) -> bool:
        return self._left <= 0


def _came_after(records: Sequence[Mapping[str, Any]], time_ms: int) -> bool:
    # The time is rounded down to a second; records of that second belong to "now".
    return bool(records) and (
        records[-1]["ApproximateArrivalTimestamp"].timestamp() * 1_000 >= time_ms + 1_000
    )
