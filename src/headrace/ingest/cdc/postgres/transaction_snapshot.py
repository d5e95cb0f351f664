"""Which transactions a snapshot of PostgreSQL sees."""

from typing import NamedTuple

_WRAP = 1 << 32


class TransactionSnapshot(NamedTuple):
    """The answer of `pg_current_snapshot()`: `xmin:xmax:running`, in 64-bit transaction ids.

    Attributes:
        xmin: every transaction below has ended.
        xmax: no transaction from here on had ended.
        running: those between that had not.
    """

    xmin: int
    xmax: int
    running: frozenset[int]

    @classmethod
    def parse(cls, text: str) -> "TransactionSnapshot":
        """Return the snapshot of PostgreSQL's text.

        >>> TransactionSnapshot.parse("10:20:10,14").sees(14)
        False
        """
        low, high, running = text.split(":")
        return cls(int(low), int(high), frozenset(int(each) for each in running.split(",") if each))

    def sees(self, xid: int) -> bool:
        """Return whether a committed transaction is in the snapshot.

        Args:
            xid: the lower 32 bits of its id, as pgoutput sends them. It must be within 2**31
                transactions of the snapshot.
        """
        full = self.xmax - self.xmax % _WRAP + xid
        if full > self.xmax + _WRAP // 2:
            full -= _WRAP
        elif full < self.xmax - _WRAP // 2:
            full += _WRAP
        return full < self.xmax and full not in self.running
