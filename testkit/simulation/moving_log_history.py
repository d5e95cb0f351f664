"""Random histories of one partition that moves between two log directories on failing disks.

The same model and the same expectations as `LogHistory`; in between, the log is copied piece by
piece, goes on in the other directory, and the move is cancelled, at any moment.
"""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from headrace.log.departed_logs import FUTURE_SUFFIX
from headrace.log.log_directory import LogDirectory
from headrace.log.log_move import UNFINISHED_NAME, LogMove, settle_half_moves
from testkit.simulation.log_history import PARTITION, LogHistory

_PATHS = (Path("/data"), Path("/other"))


class MovingLogHistory(LogHistory):
    """One seeded history; `moved` counts the moves that ended."""

    moved = 0
    _move: LogMove | None = None

    def _choices(self) -> list[tuple[Callable[[], None], int]]:
        return [
            *super()._choices(),
            (self._do_copy, 12),
            (self._do_exchange, 8),
            (self._do_cancel, 1),
        ]

    def _do_copy(self) -> None:
        move = self._current()
        move.begin()
        move.copy(self._rng.choice((100, 700, 5000)))
        assert move.lag >= 0

    def _do_exchange(self) -> None:
        move = self._current()
        move.begin()
        before = (self._log.log_start_offset, self._log.log_end_offset)
        aborted = self._log.aborted_transactions(*before)
        done = move.exchange()
        if done:
            self.trace.append(f"  moved to {move.target.path}")
            self._move, self._directory = None, move.target
            self.moved += 1
        assert before == (self._log.log_start_offset, self._log.log_end_offset)
        assert aborted == self._log.aborted_transactions(*before)
        assert self._directory.get(PARTITION) is self._log
        assert PARTITION not in self._other()
        self._check_reads()

    def _do_cancel(self) -> None:
        if self._move is not None:
            move, self._move = self._move, None
            move.cancel()
            if move.target.offline is None:
                left: list[str] = []
                with suppress(OSError):  # the look itself may meet the next fault
                    left = list(self._disk.list(move.target.path))
                assert not any(name.endswith(FUTURE_SUFFIX) for name in left)

    def _check_reads(self) -> None:
        """Read everything: each byte is where the log says it is."""
        log, at = self._log, self._log.log_start_offset
        while at < log.log_end_offset:
            piece = log.read(at, 1 << 20, max_offset=log.log_end_offset)
            assert piece.size, f"nothing at {at} of {log}"
            assert piece.file is not None
            assert piece.file.path.parent == log.path
            segments = log.segments
            at = next(
                (each.base_offset for each in segments if each.base_offset > at),
                log.log_end_offset,
            )

    def _current(self) -> LogMove:
        if self._move is None or self._move.cancelled:
            self._move = LogMove(self._directory, self._other(), self._log)
        return self._move

    def _other(self) -> LogDirectory:
        return next(each for each in self._directories if each is not self._directory)

    def _open_directory(self) -> LogDirectory:
        self._move = None
        self._directories = [self._open_path(path) for path in _PATHS]
        settle_half_moves(self._directories)
        for directory in self._directories:
            for name in directory.left_futures:
                self._disk.remove_tree(directory.path / name)
        holders = [each for each in self._directories if PARTITION in each]
        assert len(holders) <= 1, "one log goes on"
        home = holders[0] if holders else self._directories[0]
        marked = home.path / str(PARTITION) / UNFINISHED_NAME
        assert not self._disk.exists(marked), "the move is settled"
        return home

    def _close(self) -> None:
        for directory in self._directories:
            directory.close()
