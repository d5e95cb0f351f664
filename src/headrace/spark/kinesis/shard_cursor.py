"""Reads one shard, page by page, at the pace that the service allows.

Rule 1: between two GetRecords of a shard lies the interval of the options. A throttled cursor
waits longer each time, and never fails: the limit is shared with other consumers.
Rule 2: an iterator lives for five minutes. An expired one is replaced by one at the position.
Rule 3: the iterator may be ahead of the position: pages without records move only the iterator.
Rule 4: after a restart the last record that was read is read once more, and dropped. If it is not
there any more, retention took it, and perhaps records after it: the service says nothing, and
begins with the oldest record that it has. So that is a loss, though it may be a false alarm: a
shard into which nothing was put for longer than the retention looks the same. A cursor that was at
the end of its shard within `_RETAINED_SECONDS` knows that nothing is missing, and does not ask.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol

from headrace.spark.kinesis.client import Backoff, KinesisFault, Page
from headrace.spark.kinesis.position import SHARD_END, Position, after, sequence_of

_LOG = logging.getLogger("headrace.spark")
_RETAINED_SECONDS: Final = 24 * 3_600.0
"""The shortest retention of the service."""

_EXPIRED: Final = "ExpiredIteratorException"


class ShardService(Protocol):
    """What a cursor needs of the API."""

    def shard_iterator(self, shard: str, position: Position, *, with_last: bool = False) -> str:
        """Return an iterator at a position, or before the last record that was read."""
        ...

    def get_records(self, iterator: str, limit: int) -> Page:
        """Return the next records, or raise KinesisFault."""
        ...

    def backoff(self) -> Backoff:
        """Return new delays."""
        ...


class ShardCursor:
    """A place in a shard, and when it may be read next.

    Args:
        report_loss: gets a sentence, without its full stop, when records are gone. What it raises
            leaves `fetch`.

    Attributes:
        position: after the last record that was returned.
        ready_at: when the next page may be fetched, by `clock`.
        fetched_at: when the last page was fetched.
        is_at_end: whether the last page reached the end that the shard had then.
    """

    def __init__(
        self,
        service: ShardService,
        shard: str,
        position: Position,
        *,
        interval_seconds: float,
        report_loss: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._service = service
        self._shard = shard
        self._interval_seconds = interval_seconds
        self._report_loss = report_loss
        self._iterator: str | None = None
        self._expected: int | None = None
        self._clock = clock
        self._backoff = service.backoff()
        self.position = position
        self.ready_at = self.fetched_at = 0.0
        self.is_at_end = False

    def fetch(self, limit: int) -> Page | None:
        """Return the next page and move behind it, or None if the service throttles.

        Raises:
            KinesisFault: the request failed for another reason.
        """
        assert self.position != SHARD_END
        try:
            page = self._page(limit)
        except KinesisFault as fault:
            if not fault.is_throttling:
                raise
            delay = self._backoff.next_seconds()
            self.ready_at = self._clock() + delay
            _LOG.info("kinesis_throttled shard=%s delay=%.3f", self._shard, delay)
            return None
        self._backoff.reset()
        page = self._checked(page)
        self.fetched_at = self._clock()
        self.ready_at = self.fetched_at + self._interval_seconds
        self._iterator = page.next_iterator
        self.is_at_end = page.next_iterator is None or page.behind_ms == 0
        if page.next_iterator is None:
            self.position = SHARD_END
        elif page.records:
            self.position = after(page.records[-1]["SequenceNumber"])
        return page

    def _page(self, limit: int) -> Page:
        if self._iterator is not None:
            try:
                return self._service.get_records(self._iterator, limit)
            except KinesisFault as fault:
                if fault.code != _EXPIRED:
                    raise
        was_at_end = self.is_at_end and self._clock() - self.fetched_at < _RETAINED_SECONDS
        expected = None if was_at_end else sequence_of(self.position)
        self._iterator = self._service.shard_iterator(
            self._shard, self.position, with_last=expected is not None
        )
        self._expected = expected
        return self._service.get_records(self._iterator, limit)

    def _checked(self, page: Page) -> Page:
        """Return a page without the record that was read before, and report it if that is gone."""
        if self._expected is None:
            return page
        if page.records:
            if int(page.records[0]["SequenceNumber"]) == self._expected:
                self._expected = None
                return replace(page, records=page.records[1:])
        elif page.behind_ms > 0 and page.next_iterator is not None:
            return page  # the service may return empty pages on the way to a record
        self._report_loss(
            f"{self._shard} has no record {self._expected} any more, up to which it was read:"
            " it is older than the stream's retention"
        )
        self._expected = None
        return page
