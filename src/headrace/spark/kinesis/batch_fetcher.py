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
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.spark.kinesis.option import KinesisSourceOptions
from headrace.spark.kinesis.position import SHARD_END, Position, Positions, at_timestamp
from headrace.spark.kinesis.shard_cursor import ShardCursor, ShardService
from headrace.spark.kinesis.shard_graph import Shard, continued, initial_positions, readable
from headrace.spark.source.data_loss import report_loss

Records = list[Mapping[str, Any]]


class StreamService(ShardService, Protocol):
    """What the fetcher needs of the API."""

    def list_shards(self) -> tuple[list[Shard], int]:
        """Return all shards, and the service's time in milliseconds."""
        ...


@dataclass(frozen=True, slots=True)
class FetchedBatch:
    """A micro-batch: where it ends, and the records of each shard up to there."""

    end: Positions
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
        self._shards: Sequence[Shard] = ()
        self._listed_at = float("-inf")
        self._listed_ends: frozenset[str] = frozenset()
        self._until_ms: int | None = None
        self._finished: set[str] = set()

    def initial(self) -> Positions:
        """Return where a query without a checkpoint begins.

        LATEST is stored as a time, because an iterator cannot be: it ends after five minutes. While
        this process lives, the iterator is used.
        """
        shards, now_ms = self._service.list_shards()
        positions = initial_positions(shards, self._options.starting)
        for each in shards:
            if each.id not in positions:
                positions[each.id] = at_timestamp(now_ms)
                iterator = self._service.shard_iterator(each.id, None)
                self._cursors[each.id] = self._cursor(each.id, positions[each.id], iterator)
        return positions

    def stop_at_now(self) -> None:
        """Read only what is there now ("available now")."""
        self._until_ms = self._service.list_shards()[1]

    def next_batch(self, start: Mapping[str, Position]) -> FetchedBatch:
        """Return the micro-batch after `start`. It may be empty, and ends at `start` then.

        Raises:
            DataLoss: a shard is gone before its end was read, and failOnDataLoss is true.
            KinesisFault: the service refused a request, or was not reached.
        """
        while True:
            self._list(start)
            following = continued(start, self._shards)
            for shard in following.lost:
                self._report_loss(f"{shard} is gone before its end was read")
            waiting = [
                each
                for each in readable(following.positions, self._shards)
                if each not in self._finished
            ]
            fetched = self._fetch(waiting, following.positions)
            moved = any(fetched.values()) or any(
                self._cursors[each].position == SHARD_END for each in waiting
            )
            if moved or self._until_ms is None or self._finished.issuperset(waiting):
                break
        end = following.positions | {each: self._cursors[each].position for each in waiting}
        return FetchedBatch(end, {shard: found for shard, found in fetched.items() if found})

    def _list(self, start: Mapping[str, Position]) -> None:
        """List the shards if the listing is old, or a shard has ended since, which has children."""
        ends = frozenset(shard for shard, position in start.items() if position == SHARD_END)
        is_old = self._clock() - self._listed_at >= self._options.list_interval_seconds
        if is_old or ends != self._listed_ends:
            self._shards = self._service.list_shards()[0]
            self._listed_at, self._listed_ends = self._clock(), ends
            listed = {each.id for each in self._shards}
            self._cursors = {key: each for key, each in self._cursors.items() if key in listed}

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

    def _cursor(self, shard: str, position: Position, iterator: str | None = None) -> ShardCursor:
        return ShardCursor(
            self._service,
            shard,
            position,
            interval_seconds=self._options.fetch_interval_seconds,
            iterator=iterator,
            clock=self._clock,
        )

    def _report_loss(self, what: str) -> None:
        what = f"{self._options.connection.stream}: {what}"
        report_loss(what, fail=self._options.fail_on_data_loss)


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
