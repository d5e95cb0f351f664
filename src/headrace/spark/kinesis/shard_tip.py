"""Finds the end of an open shard, where a query that begins with LATEST starts.

The checkpoint needs a position that means the same after a crash. An iterator of the type LATEST
ends after five minutes, and a time depends on clocks: the service's may differ from the one that
stamps records, and several records have the same millisecond. So the shard is read to its end, from
a while ago on, and the position is after its last record.

Rule 1: what was put in the last ten seconds is read to its end. If that is nothing, ten minutes
are; if that is nothing either, the whole shard is, if it is small.
Rule 2: a shard without any record begins with its first one. One whose last record is old and
behind many others begins at a time since which it has none: ten minutes ago, so that clocks may
differ by as much.
"""

from collections.abc import Callable
from typing import Final

from headrace.spark.kinesis.client import Page
from headrace.spark.kinesis.position import TRIM_HORIZON, Position, at_timestamp
from headrace.spark.kinesis.shard_cursor import ShardCursor

_RECENT_MS: Final = 10_000
_WHILE_MS: Final = 600_000
_PAGES: Final = 4
_PAGE_RECORDS: Final = 1_000
_LARGEST_PAGE: Final = 10_000


class ShardTip:
    """Finds the ends of shards.

    Args:
        now_ms: the service's time, not later than now.
        clock: the clock of the cursors.
    """

    def __init__(
        self, now_ms: int, clock: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        self._now_ms = now_ms
        self._clock = clock
        self._sleep = sleep

    def cursor(self, cursor_at: Callable[[Position], ShardCursor]) -> ShardCursor:
        """Return a cursor at the end of a shard, or in what is put while this reads.

        Args:
            cursor_at: returns a cursor of the shard at a position.
        """
        start = at_timestamp(max(0, self._now_ms - _RECENT_MS))
        tip = cursor_at(start)
        while not self._is_new(self._page(tip, _LARGEST_PAGE)) and not tip.is_at_end:
            pass
        for earlier in (at_timestamp(max(0, self._now_ms - _WHILE_MS)), TRIM_HORIZON):
            cursor = cursor_at(earlier)
            if tip.position != start or not self._reaches_end(cursor):
                break
            tip, start = cursor, earlier
        return tip

    def _reaches_end(self, cursor: ShardCursor) -> bool:
        for _ in range(_PAGES):
            self._page(cursor, _PAGE_RECORDS)
            if cursor.is_at_end:
                return True
        return False

    def _page(self, cursor: ShardCursor, limit: int) -> Page:
        while True:
            delay = cursor.ready_at - self._clock()
            if delay > 0:
                self._sleep(delay)
            page = cursor.fetch(limit)
            if page is not None:
                return page

    def _is_new(self, page: Page) -> bool:
        """Return whether the page has a record that was put since."""
        if not page.records:
            return False
        arrived = page.records[-1]["ApproximateArrivalTimestamp"].timestamp() * 1_000
        return bool(arrived >= self._now_ms + 1_000)
