"""A request that waits for a partition to grow."""

from typing import Protocol

RECHECK = 2**62
"""As a size that a partition grew by: more than any fetch waits for, so that each reads again."""


class Waiter(Protocol):
    """A request that waits for a partition to grow."""

    def grew(self, size_bytes: int) -> None:
        """Count about so many more readable bytes; `RECHECK` when that is unknown."""

    def finish(self) -> None:
        """Answer now, with whatever there is."""
