"""Logs that move between the directories of a simulated broker, without threads."""

from random import Random

from headrace.broker.replica.log_moves import LogMoves, PausedCompaction
from headrace.log.log_move import LogMove


class InlineMoves(LogMoves):
    """Moves that go on when the simulator says so, each time by a little: whatever happens to a
    broker happens in the middle of one."""

    def __init__(self, compaction: PausedCompaction, random: Random) -> None:
        super().__init__(compaction)
        self._random = random

    def _start_threads(self) -> None:
        """Do nothing: `step` does what a thread would."""

    @property
    def under_way(self) -> int:
        return len(self._moves)

    def step(self) -> None:
        """Go on with the move that has waited for longest, if there is one."""
        while self._waiting:
            _, move = self._waiting.popleft()
            if self._moves.get(move.partition) is not move:
                continue  # it has ended
            if self._turn(move) is not None and self._moves.get(move.partition) is move:
                self._waiting.append((0.0, move))
            return

    def _advance(self, move: LogMove) -> float | None:
        """Copy some bytes, or try to end the move: a log here is always near its end."""
        if self._random.random() < 0.6:
            move.copy(self._random.choice((100, 700, 5000)))
            return None if move.cancelled else 0.0
        with self._compaction.moving(move.partition, move.source, move.target):
            done = move.exchange()
        return None if done or move.cancelled else 0.0
