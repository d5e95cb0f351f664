"""The thread that fetches ahead while the reader's caller works.

It keeps one fetch in flight to every leader, moves the cursors over the responses, and passes
fetched ranges on through a queue. The reader's thread decodes them.

Rule 1: this thread alone touches cursors, leader fetches and the pool. Before it starts, a caller
of `get` may (`expect_one_fetch`). It shares the queue, the budget and the waker with the reader's
thread.
Rule 2: a failure that a moved leader or a lost connection explains is retried (`LeaderSearch`). An
error that ends the fetching is raised by `get`, after all ranges that came before it.
Rule 3: every request reserves its bytes before it is sent (`FetchBudget`): a caller that stops
reading stops the fetching.
"""

import select
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from queue import SimpleQueue
from typing import Final, NamedTuple
from uuid import UUID

from headrace.client.error import (
    BrokerError,
    ClientError,
    ConnectionLost,
    PositionOutOfRange,
    Unreachable,
    error_of,
)
from headrace.client.network.metadata import BrokerMetadata
from headrace.client.network.pool import ConnectionPool
from headrace.client.network.retry import STALE_LEADER
from headrace.client.network.waker import Waker
from headrace.client.read.cursor import Cursor, FetchedRange
from headrace.client.read.fetch_budget import FetchBudget
from headrace.client.read.gap_evidence import GapEvidence
from headrace.client.read.leader_fetch import LeaderFetch
from headrace.client.read.leader_search import LeaderSearch
from headrace.client.read.offset_lookup import LogExtent, extents
from headrace.client.read.read_range import LogEdge
from headrace.client.read.resolved_range import ResolvedRange
from headrace.client.settings import ClientSettings
from headrace.model.ids import TopicPartition
from headrace.wire.error import MalformedResponse
from headrace.wire.error_code import ErrorCode, error_code
from headrace.wire.fetch_response import FetchPartitionResult, FetchResponse

_LONGEST_POLL_SECONDS: Final = 1.0
_CLOSE_SECONDS: Final = 5.0
_LEAST_REQUEST_BYTES: Final = 65_536


class _End(NamedTuple):
    """The last item of the queue."""

    error: BaseException | None


class Prefetch:
    """Fetches ranges of partitions into a bounded queue, until each has reached its end.

    Args:
        ranges: the offsets to read.
        limit_bytes: how many bytes to hold, requested or received, until `release` is called.
        reset: where to continue when a position is not in the log; None to raise.
        topic_ids: of topics that no later one of the same name may stand for.
        expect_one_fetch: fetch in the thread that calls `get` until there is something to return,
            and start the thread only if anything is left then. A short range needs none.
    """

    def __init__(
        self,
        settings: ClientSettings,
        ranges: Mapping[TopicPartition, ResolvedRange],
        *,
        limit_bytes: int,
        read_committed: bool = False,
        reset: LogEdge | None = None,
        topic_ids: Mapping[str, UUID] | None = None,
        expect_one_fetch: bool = False,
    ) -> None:
        self._settings = settings
        self._topic_ids = topic_ids or {}
        self._read_committed = read_committed
        self._reset = reset
        # One attempt per call: this loop retries by itself, and must not sleep inside a call.
        self._pool = ConnectionPool(replace(settings, api_timeout_ms=0))
        self._cursors: list[Cursor] = []
        self._added: list[Cursor] = []
        self._search = LeaderSearch(self._pool, settings)
        self._evidence = GapEvidence(self._pool)
        self._fetches: dict[int, LeaderFetch] = {}
        self._check_ends_at = 0.0
        self._waker = Waker()
        self._budget = FetchBudget(limit_bytes, self._waker.wake)
        self._ready: SimpleQueue[FetchedRange | _End] = SimpleQueue()
        self._closing = False
        self._ended = False
        self._lock = threading.Lock()
        self._get_fetches_first = expect_one_fetch
        # Held by a caller of `get` that fetches, before the thread starts.
        self._fetching = threading.Lock()
        self._fetching_thread: int | None = None
        self.add(ranges)
        self._thread = threading.Thread(target=self._run, name="headrace-prefetch", daemon=True)

    def start(self) -> None:
        """Start the thread, unless `get` is to fetch first."""
        if not self._get_fetches_first:
            self._thread.start()

    def add(self, ranges: Mapping[TopicPartition, ResolvedRange]) -> bool:
        """Fetch these ranges too; return False if fetching has ended. Any thread may call it."""
        cursors = [
            Cursor(each, range_.start, range_.end, topic_id=self._topic_ids.get(each.topic))
            for each, range_ in ranges.items()
        ]
        with self._lock:
            if self._ended:
                return False
            self._added += cursors
        self._waker.wake()
        return True

    def get(self, timeout_seconds: float | None = None) -> FetchedRange | None:
        """Return the next fetched range, or None after the last. Call `release` for its bytes.

        Raises:
            queue.Empty: none has come in that time.
            ClientError: the error that ended the fetching.
        """
        if self._get_fetches_first:
            timeout_seconds = self._fetch_first(timeout_seconds)
        item = self._ready.get(timeout=timeout_seconds)
        if isinstance(item, FetchedRange):
            return item
        self._ready.put(item)  # every later call gets the end too
        if item.error is not None:
            raise item.error
        return None

    def release(self, size: int) -> None:
        """Release bytes of fetched ranges that are decoded."""
        self._budget.release(size)

    @property
    def held_bytes(self) -> int:
        """How many bytes are requested, or received and not released."""
        return self._budget.held_bytes

    def close(self) -> None:
        """Stop fetching. A thread that waits in `get` returns. Any thread may call it."""
        self._closing = True
        self._waker.wake()
        self._ready.put(_End(None))
        if self._fetching_thread == threading.get_ident():
            return  # a signal's handler, inside `get`, which ends when the handler has returned
        # A caller of `get` that fetches was woken, or gives up when its request times out.
        if not self._fetching.acquire(timeout=_CLOSE_SECONDS):
            return
        self._fetching.release()
        if self._thread.ident is None:
            self._waker.close()
        else:
            self._thread.join(_CLOSE_SECONDS)

    def _fetch_first(self, timeout_seconds: float | None) -> float | None:
        """Fetch until there is something to return or the time has passed; then start the thread,
        if anything is left.

        Returns:
            How much of the time is left.
        """
        deadline = None if timeout_seconds is None else time.monotonic() + timeout_seconds
        with self._fetching:
            if self._get_fetches_first:
                self._get_fetches_first = False
                self._fetching_thread = threading.get_ident()
                try:
                    if self._steps_until(deadline):
                        self._thread.start()
                    else:
                        self._end(None)
                except Exception as error:  # noqa: BLE001 - raised after the ranges before it
                    self._end(error)
                except BaseException:
                    self._end(ClientError("the first fetch was interrupted: make another reader"))
                    raise
                finally:
                    self._fetching_thread = None
        return None if deadline is None else max(0.0, deadline - time.monotonic())

    def _steps_until(self, deadline: float | None) -> bool:
        """Fetch until something is ready, all is, or the time has passed; return whether more is
        to be fetched."""
        while self._is_running():
            if not self._ready.empty() or (deadline is not None and time.monotonic() >= deadline):
                return True
            self._step()
        return False

    # -- the thread

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            while self._is_running():
                self._step()
        except BaseException as caught:  # noqa: BLE001 - `get` raises it in the reader's thread
            error = caught
        finally:
            self._end(error)

    def _end(self, error: BaseException | None) -> None:
        self._ended = True
        for fetch in self._fetches.values():
            fetch.close()
        self._pool.close()
        self._waker.close()
        self._ready.put(_End(error))

    def _is_running(self) -> bool:
        with self._lock:
            added, self._added = self._added, []
            now = time.monotonic()
            for cursor in added:
                cursor.moved_at = now
                if not cursor.done:
                    self._cursors.append(cursor)
                    self._search.add(cursor)
            self._ended = self._closing or all(each.done for each in self._cursors)
            return not self._ended

    def _step(self) -> None:
        now = time.monotonic()
        if self._search.due is not None and now >= self._search.due:
            for cursor, leader in self._search.search(now):
                self._assign_leader(cursor, leader, now)
        if now >= self._check_ends_at:
            self._check_ends(now)
        for fetch in list(self._fetches.values()):
            if not fetch.in_flight and now >= fetch.not_before:
                self._send(fetch)
        for fetch in self._wait():
            self._receive(fetch)

    def _assign_leader(self, cursor: Cursor, leader: BrokerMetadata, now: float) -> None:
        fetch = self._fetches.get(leader.node_id)
        if fetch is not None and fetch.broker != leader:
            self._fail_leader(fetch, Unreachable(f"broker {leader.node_id} has moved"), now)
            fetch = None
        if fetch is None:
            fetch = self._fetches[leader.node_id] = LeaderFetch(leader, self._settings)
        fetch.cursors.append(cursor)

    def _check_ends(self, now: float) -> None:
        """Give up on ends that the log does not reach within default.api.timeout.ms."""
        self._check_ends_at = now + _LONGEST_POLL_SECONDS
        patience = self._settings.api_timeout_ms / 1000
        for cursor in self._cursors:
            if cursor.done or cursor.end is None or cursor.failing_since is not None:
                continue
            if now - cursor.moved_at > patience and 0 <= cursor.visible < cursor.end:
                self._ready.put(self._give_up(cursor))

    def _send(self, fetch: LeaderFetch) -> None:
        cursors = fetch.unfinished_cursors()
        if not cursors:
            return
        size = self._request_bytes
        if not self._budget.reserve(size):
            return
        try:
            fetch.send(cursors, size, self._read_committed)
        except (ConnectionLost, Unreachable) as error:
            self._budget.release(size)
            self._fail_leader(fetch, error, time.monotonic())
        except MalformedResponse as error:  # while the connection was opened
            self._budget.release(size)
            self._fail_leader(fetch, ConnectionLost(str(error)), time.monotonic())

    @property
    def _request_bytes(self) -> int:
        """How many bytes to request: a share per leader, and two for responses being decoded."""
        share = self._budget.limit_bytes // (len(self._fetches) + 2)
        return max(_LEAST_REQUEST_BYTES, min(share, self._settings.fetch_max_bytes))

    def _wait(self) -> list[LeaderFetch]:
        """Wait for a response, a deadline or a wake-up; return the fetches to receive from."""
        now = time.monotonic()
        until = now + _LONGEST_POLL_SECONDS
        if self._search.due is not None:
            until = min(until, self._search.due)
        poll = select.poll()
        poll.register(self._waker, select.POLLIN)
        in_flight: dict[int, LeaderFetch] = {}
        for fetch in self._fetches.values():
            if fetch.in_flight:
                in_flight[fetch.fileno()] = fetch
                poll.register(fetch, select.POLLIN)
                until = min(until, fetch.deadline)
            elif fetch.not_before > now:
                until = min(until, fetch.not_before)
        ready = {number for number, _ in poll.poll(max(0.0, until - now) * 1000)}
        if self._waker.fileno() in ready:
            self._waker.clear()
        now = time.monotonic()
        return [
            fetch for number, fetch in in_flight.items() if number in ready or now > fetch.deadline
        ]

    def _receive(self, fetch: LeaderFetch) -> None:
        now = time.monotonic()
        try:
            answer = fetch.receive()
        except (ConnectionLost, Unreachable) as error:
            self._fail_leader(fetch, error, now)
            return
        except MalformedResponse as error:
            # The bytes that follow on this connection cannot be trusted either.
            self._fail_leader(fetch, ConnectionLost(str(error)), now)
            return
        if answer is None:
            return
        fetch.not_before = now + answer.throttle_ms / 1000
        ranges: list[FetchedRange] = []
        try:
            self._read_response(fetch, answer, ranges, now)
        finally:
            self._budget.replace_reservation(
                fetch.reserved_bytes, sum(len(each.data) for each in ranges)
            )
            for fetched in ranges:
                self._ready.put(fetched)

    def _read_response(
        self, fetch: LeaderFetch, answer: FetchResponse, ranges: list[FetchedRange], now: float
    ) -> None:
        problem = error_of(error_code(answer.error_code))
        results = {
            (topic.name or topic.topic_id, result.partition): result
            for topic in answer.topics
            for result in topic.partitions
        }
        # A partition after one with records may be empty only because the response was full.
        room_left = not answer.throttle_ms
        for cursor, position in fetch.requested:
            topic, index = cursor.partition.topic, cursor.partition.partition
            result = results.get((cursor.topic_id, index)) or results.get((topic, index))
            if cursor.position != position or (result is None and problem is None):
                room_left = False
                continue
            error = problem or error_of(error_code(result.error_code if result else 0))
            if error is not None:
                self._refused(fetch, cursor, error, ranges, now)
                continue
            assert result is not None
            fetched = self._fetched_range(cursor, result, room_left, now)
            self._search.succeed(cursor)
            room_left = room_left and not result.records_bytes
            if fetched is not None:
                cursor.moved(now)
                ranges.append(fetched)
            elif result.records_bytes:
                self._cut_off(cursor, now)

    def _fetched_range(
        self,
        cursor: Cursor,
        result: FetchPartitionResult[memoryview],
        room_left: bool,
        now: float,
    ) -> FetchedRange | None:
        cursor.log_start = result.log_start_offset
        cursor.visible = (
            result.last_stable_offset if self._read_committed else result.high_watermark
        )
        if result.records:
            return cursor.advance(result.records, result.aborted or ())
        return self._silence(cursor, now) if room_left and cursor.may_end_in_gap else None

    def _silence(self, cursor: Cursor, now: float) -> FetchedRange | None:
        """Decide on an empty response: pass a gap at the end, wait for more, or give up."""
        cursor.count_silence(now)
        patience = self._settings.api_timeout_ms / 1000
        enough = self._evidence.silent_seconds(cursor.partition.topic)
        if enough is not None and cursor.silent_for(min(enough, patience), now):
            return cursor.pass_gap()
        return self._give_up(cursor) if cursor.silent_for(patience, now) else None

    # -- failures

    def _give_up(self, cursor: Cursor) -> FetchedRange:
        """Skip the rest of a range that does not come, or raise."""
        assert cursor.end is not None
        if self._reset is None:
            raise PositionOutOfRange(
                cursor.partition, cursor.position, cursor.log_start, cursor.visible
            )
        return cursor.skip(cursor.end)

    def _cut_off(self, cursor: Cursor, now: float) -> None:
        """Count an incomplete batch. It found no room after those of other partitions, and comes
        whole when its partition is first in the request, unless the broker is at fault."""
        if cursor.cut_since is None:
            cursor.cut_since = now
        if now - cursor.cut_since > self._settings.api_timeout_ms / 1000:
            raise ClientError(
                f"cannot read {cursor.partition}: "
                f"its leader sends only the beginning of the batch at offset {cursor.position}"
            )

    def _refused(
        self,
        fetch: LeaderFetch,
        cursor: Cursor,
        error: BrokerError,
        ranges: list[FetchedRange],
        now: float,
    ) -> None:
        if error.code is ErrorCode.offset_out_of_range:
            self._out_of_range(fetch, cursor, ranges, now)
        elif error.code in STALE_LEADER or error.code is ErrorCode.unknown_topic_or_partition:
            fetch.cursors.remove(cursor)
            self._search.fail(cursor, error, now)
        else:
            raise BrokerError(error.code, f"cannot read {cursor.partition}: {error}")

    def _out_of_range(
        self, fetch: LeaderFetch, cursor: Cursor, ranges: list[FetchedRange], now: float
    ) -> None:
        """Raise, or continue where the log begins or ends, as `reset` says. A broker that has just
        started may refuse a good offset for a moment: it is retried."""
        log = extents(self._pool, [cursor.partition])[cursor.partition]
        if isinstance(log, ClientError) or log.start <= cursor.position <= log.end:
            error = log if isinstance(log, ClientError) else None
            fetch.cursors.remove(cursor)
            self._search.fail(cursor, error or BrokerError(ErrorCode.offset_out_of_range), now)
            return
        if self._reset is None:
            raise PositionOutOfRange(cursor.partition, cursor.position, log.start, log.end)
        cursor.moved(now)
        ranges.append(cursor.skip(self._reset_to(cursor, log)))

    def _reset_to(self, cursor: Cursor, log: LogExtent) -> int:
        to = log.start if self._reset is LogEdge.EARLIEST else log.end
        if cursor.end is None:
            return to
        # A range never goes back before its start.
        return cursor.end if cursor.position > log.end else min(to, cursor.end)

    def _fail_leader(self, fetch: LeaderFetch, error: ClientError, now: float) -> None:
        if fetch.in_flight:
            self._budget.release(fetch.reserved_bytes)
        fetch.close()
        self._fetches = {node: each for node, each in self._fetches.items() if each is not fetch}
        for cursor in fetch.cursors:
            if not cursor.done:
                self._search.fail(cursor, error, now)
