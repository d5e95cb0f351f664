"""The thread that keeps fetches on their way while the reader's owner works.

It asks every leader with a connection of its own, moves the cursors over what comes, and hands
pieces on through a queue. Decoding is left to whoever takes them.

Rule 1: this thread alone touches cursors, lanes and the pool. It shares the queue, the budget and
the bell with the other.
Rule 2: whatever a leader's move or a lost connection explains is tried again (`LeaderSearch`). What
ends the fetching is raised where records are asked for, behind all that came before.
Rule 3: every request is paid for before it is sent (`FetchBudget`): an owner who stops taking
pieces stops the fetching.
"""

import select
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from queue import SimpleQueue
from typing import Final, NamedTuple

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
from headrace.client.read.read_range import Offset
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
    """The last of the queue."""

    error: BaseException | None


class Prefetch:
    """Fetches ranges of partitions into a bounded queue, until each has reached its end.

    Args:
        extents: the offsets to read.
        limit_bytes: how much to hold, asked for or arrived, until `give_back` is called for it.
        reset: where to go on when a position is not in the log; None to raise.
    """

    def __init__(
        self,
        settings: ClientSettings,
        extents: Mapping[TopicPartition, ResolvedRange],
        *,
        limit_bytes: int,
        read_committed: bool = False,
        reset: Offset | None = None,
    ) -> None:
        self._settings = settings
        self._read_committed = read_committed
        self._reset = reset
        # One attempt each: this loop has patience of its own, and must not sleep while it has it.
        self._pool = ConnectionPool(replace(settings, api_timeout_ms=0))
        self._cursors: list[Cursor] = []
        self._added: list[Cursor] = []
        self._search = LeaderSearch(self._pool, settings)
        self._evidence = GapEvidence(self._pool)
        self._lanes: dict[int, LeaderFetch] = {}
        self._check_ends_at = 0.0
        self._bell = Waker()
        self._budget = FetchBudget(limit_bytes, self._bell.ring)
        self._ready: SimpleQueue[FetchedRange | _End] = SimpleQueue()
        self._closing = False
        self._ended = False
        self._lock = threading.Lock()
        self.add(extents)
        self._thread = threading.Thread(target=self._run, name="headrace-prefetch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, extents: Mapping[TopicPartition, ResolvedRange]) -> bool:
        """Fetch these as well, from any thread. False when it is too late: all others are done."""
        cursors = [Cursor(each, extent.start, extent.end) for each, extent in extents.items()]
        with self._lock:
            if self._ended:
                return False
            self._added += cursors
        self._bell.ring()
        return True

    def get(self, timeout_seconds: float | None = None) -> FetchedRange | None:
        """The next piece, or None when all have come. `give_back` its bytes when done with them.

        Raises:
            queue.Empty: none has come in that time.
            ClientError: what ended the fetching.
        """
        found = self._ready.get(timeout=timeout_seconds)
        if isinstance(found, FetchedRange):
            return found
        self._ready.put(found)  # the end stays the end, however often it is asked for
        if found.error is not None:
            raise found.error
        return None

    def give_back(self, size: int) -> None:
        """These bytes of a piece are decoded."""
        self._budget.give_back(size)

    @property
    def held_bytes(self) -> int:
        return self._budget.held_bytes

    def close(self) -> None:
        """Stop, from any thread. Whoever waits in `get` is let go."""
        self._closing = True
        self._bell.ring()
        self._ready.put(_End(None))
        if self._thread.ident is None:
            self._bell.close()
        else:
            self._thread.join(_CLOSE_SECONDS)

    # -- the thread

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            while self._goes_on():
                self._turn()
        except BaseException as caught:  # noqa: BLE001 - it is raised in the owner's thread
            error = caught
        finally:
            self._ended = True
            for lane in self._lanes.values():
                lane.close()
            self._pool.close()
            self._bell.close()
            self._ready.put(_End(error))

    def _goes_on(self) -> bool:
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

    def _turn(self) -> None:
        now = time.monotonic()
        if self._search.due is not None and now >= self._search.due:
            for cursor, leader in self._search.look(now):
                self._place(cursor, leader, now)
        if now >= self._check_ends_at:
            self._check_ends(now)
        for lane in list(self._lanes.values()):
            if not lane.is_asking and now >= lane.not_before:
                self._ask(lane)
        for lane in self._wait():
            self._hear(lane)

    def _place(self, cursor: Cursor, leader: BrokerMetadata, now: float) -> None:
        lane = self._lanes.get(leader.node_id)
        if lane is not None and lane.broker != leader:
            self._lose(lane, Unreachable(f"broker {leader.node_id} has moved"), now)
            lane = None
        if lane is None:
            lane = self._lanes[leader.node_id] = LeaderFetch(leader, self._settings)
        lane.cursors.append(cursor)

    def _check_ends(self, now: float) -> None:
        """An end that the log does not reach is not waited for longer than for a leader."""
        self._check_ends_at = now + _LONGEST_POLL_SECONDS
        patience = self._settings.api_timeout_ms / 1000
        for cursor in self._cursors:
            if cursor.done or cursor.end is None or cursor.failing_since is not None:
                continue
            if now - cursor.moved_at > patience and 0 <= cursor.visible < cursor.end:
                self._ready.put(self._give_up(cursor))

    def _ask(self, lane: LeaderFetch) -> None:
        cursors = lane.wanted()
        if not cursors:
            return
        size = self._request_bytes
        if not self._budget.take(size):
            return
        try:
            lane.ask(cursors, size, self._read_committed)
        except (ConnectionLost, Unreachable) as error:
            self._budget.give_back(size)
            self._lose(lane, error, time.monotonic())
        except MalformedResponse as error:  # what was said when the connection was made
            self._budget.give_back(size)
            self._lose(lane, ConnectionLost(str(error)), time.monotonic())

    @property
    def _request_bytes(self) -> int:
        """So much that each leader can be asked while two more answers wait to be decoded."""
        share = self._budget.limit_bytes // (len(self._lanes) + 2)
        return max(_LEAST_REQUEST_BYTES, min(share, self._settings.fetch_max_bytes))

    def _wait(self) -> list[LeaderFetch]:
        """Until something came, is late, or is to be done: the lanes to look at."""
        now = time.monotonic()
        until = now + _LONGEST_POLL_SECONDS
        if self._search.due is not None:
            until = min(until, self._search.due)
        poll = select.poll()
        poll.register(self._bell, select.POLLIN)
        asking: dict[int, LeaderFetch] = {}
        for lane in self._lanes.values():
            if lane.is_asking:
                asking[lane.fileno()] = lane
                poll.register(lane, select.POLLIN)
                until = min(until, lane.deadline)
            elif lane.not_before > now:
                until = min(until, lane.not_before)
        ready = {number for number, _ in poll.poll(max(0.0, until - now) * 1000)}
        if self._bell.fileno() in ready:
            self._bell.hush()
        now = time.monotonic()
        return [lane for number, lane in asking.items() if number in ready or now > lane.deadline]

    def _hear(self, lane: LeaderFetch) -> None:
        now = time.monotonic()
        try:
            answer = lane.answer()
        except (ConnectionLost, Unreachable) as error:
            self._lose(lane, error, now)
            return
        except MalformedResponse as error:
            # Whatever follows on this connection cannot be trusted either; a new one may do.
            self._lose(lane, ConnectionLost(str(error)), now)
            return
        if answer is None:
            return
        lane.not_before = now + answer.throttle_ms / 1000
        pieces: list[FetchedRange] = []
        try:
            self._take(lane, answer, pieces, now)
        finally:
            self._budget.settle(lane.reserved_bytes, sum(len(each.data) for each in pieces))
            for piece in pieces:
                self._ready.put(piece)

    def _take(
        self, lane: LeaderFetch, answer: FetchResponse, pieces: list[FetchedRange], now: float
    ) -> None:
        problem = error_of(error_code(answer.error_code))
        results = {
            (topic.name or topic.topic_id, result.partition): result
            for topic in answer.topics
            for result in topic.partitions
        }
        # What comes behind a partition that gave something may just have found no room.
        room_left = not answer.throttle_ms
        for cursor, position in lane.asked:
            topic, index = cursor.partition.topic, cursor.partition.partition
            result = results.get((cursor.topic_id, index)) or results.get((topic, index))
            if cursor.position != position or (result is None and problem is None):
                room_left = False
                continue
            error = problem or error_of(error_code(result.error_code if result else 0))
            if error is not None:
                self._refused(lane, cursor, error, pieces, now)
                continue
            assert result is not None
            piece = self._piece(cursor, result, room_left, now)
            self._search.well(cursor)
            room_left = room_left and not result.records_bytes
            if piece is not None:
                cursor.moved(now)
                pieces.append(piece)
            elif result.records_bytes:
                self._cut_off(cursor, now)

    def _piece(
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
            return cursor.take(result.records, result.aborted or ())
        return self._silence(cursor, now) if room_left and cursor.may_end_in_gap else None

    def _silence(self, cursor: Cursor, now: float) -> FetchedRange | None:
        """Nothing came of what the leader should have: a gap at the end, or it takes its time."""
        cursor.hear_nothing(now)
        patience = self._settings.api_timeout_ms / 1000
        enough = self._evidence.silent_seconds(cursor.partition.topic)
        if enough is not None and cursor.silent_for(min(enough, patience), now):
            return cursor.pass_gap()
        return self._give_up(cursor) if cursor.silent_for(patience, now) else None

    # -- what goes wrong

    def _give_up(self, cursor: Cursor) -> FetchedRange:
        """What is left of a range does not come."""
        assert cursor.end is not None
        if self._reset is None:
            raise PositionOutOfRange(
                cursor.partition, cursor.position, cursor.log_start, cursor.visible
            )
        return cursor.skip(cursor.end)

    def _cut_off(self, cursor: Cursor, now: float) -> None:
        """A batch without its end found no room behind others. In its turn it is asked for first,
        and then comes whole, unless the broker keeps it."""
        if cursor.cut_since is None:
            cursor.cut_since = now
        if now - cursor.cut_since > self._settings.api_timeout_ms / 1000:
            raise ClientError(
                f"cannot read {cursor.partition}: "
                f"its leader sends only the beginning of the batch at offset {cursor.position}"
            )

    def _refused(
        self,
        lane: LeaderFetch,
        cursor: Cursor,
        error: BrokerError,
        pieces: list[FetchedRange],
        now: float,
    ) -> None:
        if error.code is ErrorCode.offset_out_of_range:
            self._out_of_range(lane, cursor, pieces, now)
        elif error.code in STALE_LEADER or error.code is ErrorCode.unknown_topic_or_partition:
            lane.cursors.remove(cursor)
            self._search.fail(cursor, error, now)
        else:
            raise BrokerError(error.code, f"cannot read {cursor.partition}: {error}")

    def _out_of_range(
        self, lane: LeaderFetch, cursor: Cursor, pieces: list[FetchedRange], now: float
    ) -> None:
        """Say so, or go on where the log begins or ends. A broker that has just started may answer
        so for a moment: then it is asked again."""
        found = extents(self._pool, [cursor.partition])[cursor.partition]
        if isinstance(found, ClientError) or found.start <= cursor.position <= found.end:
            error = found if isinstance(found, ClientError) else None
            lane.cursors.remove(cursor)
            self._search.fail(cursor, error or BrokerError(ErrorCode.offset_out_of_range), now)
            return
        if self._reset is None:
            raise PositionOutOfRange(cursor.partition, cursor.position, found.start, found.end)
        cursor.moved(now)
        pieces.append(cursor.skip(self._reset_to(cursor, found)))

    def _reset_to(self, cursor: Cursor, log: LogExtent) -> int:
        to = log.start if self._reset is Offset.EARLIEST else log.end
        if cursor.end is None:
            return to
        # A range never goes back: what lies before its start is not wanted.
        return cursor.end if cursor.position > log.end else min(to, cursor.end)

    def _lose(self, lane: LeaderFetch, error: ClientError, now: float) -> None:
        if lane.is_asking:
            self._budget.give_back(lane.reserved_bytes)
        lane.close()
        self._lanes = {node: each for node, each in self._lanes.items() if each is not lane}
        for cursor in lane.cursors:
            if not cursor.done:
                self._search.fail(cursor, error, now)
