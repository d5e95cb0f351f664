"""Logs that move between the directories of this broker (AlterReplicaLogDirs, KIP-113).

Rule 1: a log has at most one move. A request for another directory ends the first one; a request
for the directory that the log lies in ends the move and begins none.
Rule 2: all copying is done by threads of this class, as fast as
replica.alter.log.dirs.io.max.bytes.per.second allows for all of them together, and in turns: a log
that waits for room, or that grows faster than it is copied, holds up no other.
Rule 3: a full disk makes a move wait. A directory that fails ends the moves from and to it, and a
log that is deleted, or whose replica moves away, ends its own. The copy is removed then.
Rule 4: a move is remembered by the directory of its copy. A start begins it again.
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Condition, Event, Thread, current_thread
from typing import Protocol

import structlog

from headrace.log.log_directory import LogDirectory
from headrace.log.log_move import LogMove
from headrace.log.partition.partition_log import PartitionLog
from headrace.model.error import DiskFull, HeadraceError, InvalidArgument
from headrace.model.ids import TopicPartition

log = structlog.get_logger(__name__)

_CHUNK_BYTES = 1024 * 1024
_SMALLEST_CHUNK_BYTES = 4096
# So close, the exchange copies the rest, and holds up retention and truncation meanwhile.
_NEAR_BYTES = 1024 * 1024
# How much of one log is copied before another has its turn.
_TURN_BYTES = 16 * _CHUNK_BYTES
_FULL_DISK_SECONDS = 5.0
_GROWING_SECONDS = 0.2
# Shorter sleeps cost more than they gain.
_SHORTEST_SLEEP_SECONDS = 0.01
_LONGEST_SLEEP_SECONDS = 1.0


class PausedCompaction(Protocol):
    """The background compaction of the same directories."""

    def moving(
        self, partition: TopicPartition, source: LogDirectory, target: LogDirectory
    ) -> AbstractContextManager[None]:
        """Keep compaction off a log while it goes on in another directory, and take its progress
        along."""


class LogMoves:
    """The moves under way, and the threads that do them. The threads end with the last move.

    Threads: any. `request` and `forbidden` wait for the disk.

    Attributes:
        ended: counts the logs that went on in another directory. Who looks for a log in one
            directory after the other looks again when it has changed.
    """

    def __init__(self, compaction: PausedCompaction) -> None:
        self.ended = 0
        self._compaction = compaction
        self._most_threads = 1
        self._bytes_per_second = 0
        self._changed = Condition()
        self._moves: dict[TopicPartition, LogMove] = {}
        # Those that no thread works on, each with the time from which on one may.
        self._waiting: deque[tuple[float, LogMove]] = deque()
        self._forbidden: set[TopicPartition] = set()
        self._threads: set[Thread] = set()
        self._stopped = Event()
        self._paid_until = 0.0

    def configure(self, *, threads: int, bytes_per_second: int) -> None:
        """Change the limits, from now on."""
        with self._changed:
            self._most_threads = max(1, threads)
            if bytes_per_second != self._bytes_per_second:
                self._bytes_per_second = bytes_per_second
                self._paid_until = 0.0
            self._start_threads()
            self._changed.notify_all()

    def of(self, target: LogDirectory) -> list[LogMove]:
        """Return the moves into a directory."""
        with self._changed:
            return [each for each in self._moves.values() if each.target is target]

    def request(
        self, stored: PartitionLog, directories: Iterable[LogDirectory], target: LogDirectory
    ) -> None:
        """Begin to move a log to a directory, which may be the one that it lies in (rule 1).

        Args:
            directories: those of the broker. In which of them the log lies is looked up here: a
                move that is ended for this one may have just come to its own end.

        Raises:
            StorageError: the target has failed, or is full; there is no move then.
            InvalidArgument: the log is in none of the directories.
        """
        while not self._begin(stored, directories, target):
            pass  # it has moved meanwhile

    def _begin(
        self, stored: PartitionLog, directories: Iterable[LogDirectory], target: LogDirectory
    ) -> bool:
        name = stored.partition
        with self._changed:
            known = self._moves.get(name)
            if known is not None and known.target is target:
                return True
        if known is not None:
            self._cancel(known)
        source = _home(stored, directories)
        if source is target:
            return True
        move = LogMove(source, target, stored, adopted=self._count)
        try:
            move.begin()
        except HeadraceError:
            move.cancel()  # what there is of a copy; it would be begun again at a start
            raise
        with self._changed:
            # Nothing but a move changes it, and none of this log is under way.
            moved = not move.starts_at_home
            refused = name in self._forbidden or name in self._moves or self._stopped.is_set()
            if not moved and not refused:
                self._moves[name] = move
                self._waiting.append((0.0, move))
                self._start_threads()
                self._changed.notify()
        if moved or refused:
            move.cancel()
            return refused
        log.info(
            "log_move_begun",
            partition=str(name),
            source=str(source.path),
            target=str(target.path),
        )
        return True

    @contextmanager
    def forbidden(self, *names: TopicPartition) -> Iterator[None]:
        """End the moves of these logs, and let none begin inside: they are deleted here."""
        with self._changed:
            added = set(names) - self._forbidden
            self._forbidden |= added
            found = [self._moves[name] for name in names if name in self._moves]
        try:
            for move in found:
                self._cancel(move)
            yield
        finally:
            with self._changed:
                self._forbidden -= added

    def stop(self) -> None:
        """End the threads; the copies stay, for the next start (rule 4)."""
        self._stopped.set()
        with self._changed:
            self._changed.notify_all()
            threads = list(self._threads)
        for thread in threads:
            thread.join()

    # -- the threads

    def _count(self) -> None:
        self.ended += 1

    def _cancel(self, move: LogMove) -> None:
        move.cancel()
        self._forget(move)

    def _forget(self, move: LogMove) -> None:
        with self._changed:
            if self._moves.get(move.partition) is move:
                del self._moves[move.partition]

    def _start_threads(self) -> None:
        """Have as many threads as there are moves, or as are allowed. Under the lock."""
        while len(self._threads) < min(self._most_threads, len(self._moves)):
            thread = Thread(target=self._work, name="log-move", daemon=True)
            self._threads.add(thread)
            thread.start()

    def _work(self) -> None:
        thread = current_thread()
        while (move := self._next(thread)) is not None:
            rest = self._turn(move)
            with self._changed:
                if rest is not None and self._moves.get(move.partition) is move:
                    self._waiting.append((time.monotonic() + rest, move))
                    self._changed.notify()

    def _next(self, thread: Thread) -> LogMove | None:
        """Return a move that is due; None when this thread is to end."""
        with self._changed:
            while True:
                idle = not self._moves or len(self._threads) > self._most_threads
                if self._stopped.is_set() or idle:
                    self._threads.discard(thread)
                    self._changed.notify_all()
                    return None
                now = time.monotonic()
                for _ in range(len(self._waiting)):
                    due, move = self._waiting.popleft()
                    if self._moves.get(move.partition) is not move:
                        continue  # it has ended
                    if due <= now:
                        return move
                    self._waiting.append((due, move))
                self._changed.wait(_GROWING_SECONDS)

    def _turn(self, move: LogMove) -> float | None:
        """Go on with a move; return how many seconds it rests, None when it is at its end."""
        try:
            rest = self._advance(move)
        except DiskFull as error:
            log.warning("log_move_waits", partition=str(move.partition), reason=str(error))
            return _FULL_DISK_SECONDS
        except HeadraceError as error:
            log.warning("log_move_ended", partition=str(move.partition), reason=str(error))
            self._cancel(move)
            return None
        except Exception as error:
            log.error("log_move_ended", partition=str(move.partition), exc_info=error)
            self._cancel(move)
            return None
        if rest is None:
            self._forget(move)
        return rest

    def _advance(self, move: LogMove) -> float | None:
        copied = 0
        while copied < _TURN_BYTES and not self._stopped.is_set():
            size_bytes = 0 if self._is_near(move) else move.copy(self._chunk_bytes())
            if not size_bytes:
                break
            copied += size_bytes
            self._pay(size_bytes, move)
        else:
            return 0.0
        if move.cancelled:
            return None
        if not self._is_near(move):
            return _GROWING_SECONDS
        with self._compaction.moving(move.partition, move.source, move.target):
            done = move.exchange()
        return None if done or move.cancelled else _GROWING_SECONDS

    def _is_near(self, move: LogMove) -> bool:
        """Return whether the rest may be copied at once: a second of the rate, at most a MiB."""
        rate = self._bytes_per_second
        return move.behind_bytes <= (min(_NEAR_BYTES, rate) if rate > 0 else _NEAR_BYTES)

    def _chunk_bytes(self) -> int:
        """Return what may be copied at once: a tenth of a second of a low rate."""
        rate = self._bytes_per_second
        if rate <= 0:
            return _CHUNK_BYTES
        return max(_SMALLEST_CHUNK_BYTES, min(_CHUNK_BYTES, rate // 10))

    def _pay(self, size_bytes: int, move: LogMove) -> None:
        """Sleep if the threads together copy faster than they may; until the move or the rate ends,
        at the longest."""
        with self._changed:
            rate = self._bytes_per_second
            if rate <= 0:
                return
            self._paid_until = max(self._paid_until, time.monotonic()) + size_bytes / rate
            until = self._paid_until
            while (
                (ahead := until - time.monotonic()) >= _SHORTEST_SLEEP_SECONDS
                and rate == self._bytes_per_second
                and not move.cancelled
                and not self._stopped.is_set()
            ):
                self._changed.wait(min(ahead, _LONGEST_SLEEP_SECONDS))


def _home(stored: PartitionLog, directories: Iterable[LogDirectory]) -> LogDirectory:
    path = stored.path.parent
    for directory in directories:
        if directory.path == path:
            return directory
    raise InvalidArgument(f"no log directory has {stored.partition}")
