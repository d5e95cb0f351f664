"""A partition's log as the simulator needs it: entries with their leader epochs, in memory."""

from typing import NamedTuple


class SimulatedEntry(NamedTuple):
    """One record: the epoch of the leader that wrote it, and its value."""

    epoch: int
    value: int


class SimulatedLog:
    """A log that survives a crash of its broker, as files do."""

    def __init__(self) -> None:
        self.entries: list[SimulatedEntry] = []
        self._starts: list[tuple[int, int]] = []

    @property
    def log_end_offset(self) -> int:
        return len(self.entries)

    @property
    def last_epoch(self) -> int:
        return self.entries[-1].epoch if self.entries else -1

    def begin_epoch(self, epoch: int) -> None:
        """Note where a leader's epoch begins, before the leader writes in it."""
        self._assign(epoch, len(self.entries))

    def append(self, entries: list[SimulatedEntry]) -> None:
        for entry in entries:
            self._assign(entry.epoch, len(self.entries))
            self.entries.append(entry)

    def truncate_to(self, offset: int) -> None:
        del self.entries[offset:]
        self._starts = [(epoch, start) for epoch, start in self._starts if start < offset]

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        known = [each for each, _ in self._starts]
        if epoch < 0 or not known or epoch > known[-1]:
            return -1, -1
        later = [start for each, start in self._starts if each > epoch]
        nearest = max((each for each in known if each <= epoch), default=epoch)
        return nearest, later[0] if later else len(self.entries)

    def _assign(self, epoch: int, start: int) -> None:
        if self._starts and self._starts[-1][0] == epoch:
            return
        self._starts = [(each, at) for each, at in self._starts if each < epoch and at < start]
        self._starts.append((epoch, start))
