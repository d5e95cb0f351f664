"""Where the rows of one put went."""

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple

from headrace.client.error import ClientError


class PlacedPart(NamedTuple):
    """What became of the rows from `start` on, up to the next part."""

    start: int
    outcome: "PlacedRows | ClientError"


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """Where rows were written: at consecutive offsets, with one time.

    Attributes:
        parts: if the rows had to be divided among several batches, in the order of the rows. Other
            writers may have come between them, and some may have failed.
    """

    base_offset: int
    time_ms: int
    parts: tuple[PlacedPart, ...] = ()

    def place(self, index: int) -> tuple[int, int]:
        """Return the offset and the time of a row.

        Raises:
            ClientError: this row was not written, or may not be.
        """
        if not self.parts:
            return self.base_offset + index, self.time_ms
        part = next(each for each in reversed(self.parts) if each.start <= index)
        if isinstance(part.outcome, ClientError):
            raise part.outcome
        return part.outcome.place(index - part.start)


@dataclass(slots=True)
class PlacingRows:
    """The rows of one put while they are on their way, in one part or several.

    It fails only if no row was written.
    """

    count: int
    placed: "Future[PlacedRows]" = field(default_factory=Future)
    _parts: list[PlacedPart] = field(default_factory=list)
    _known: int = 0

    def finish(self, start: int, count: int, outcome: PlacedRows | ClientError) -> None:
        """Note what became of some rows; when all are known, so is the result."""
        self._known += count
        self._parts.append(PlacedPart(start, outcome))
        if self._known < self.count:
            return
        found = [each.outcome for each in self._parts if not isinstance(each.outcome, ClientError)]
        if not found and isinstance(outcome, ClientError):
            self.placed.set_exception(outcome)
        elif len(self._parts) == 1:
            self.placed.set_result(found[0])
        else:
            parts = tuple(sorted(self._parts, key=lambda each: each.start))
            self.placed.set_result(PlacedRows(found[0].base_offset, found[0].time_ms, parts))
