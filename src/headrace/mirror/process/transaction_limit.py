"""How much one transaction may hold, by how fast the target took the last ones. Pure."""

from typing import Final

_SECONDS: Final = 2.0
"""How long a transaction may take. An instance that shares a flow must answer its group in between,
within 10 s, and the target's coordinator aborts a transaction after 30 s."""

_FIRST_BYTES: Final = 2 << 20
_LEAST_BYTES: Final = 16 << 10
_MOST_BYTES: Final = 32 << 20
_GROWTH: Final = 4
_SHRINKAGE: Final = 8


class TransactionLimit:
    """Bounds the transactions of one flow, so that a slow target ends each in time.

    It is kept over errors: a transaction that was too large must not be tried again as it was.

    >>> limit = TransactionLimit()
    >>> limit.committed(limit.size_bytes, seconds=20.0)
    >>> limit.size_bytes
    209715
    """

    def __init__(self) -> None:
        self.size_bytes = _FIRST_BYTES

    def committed(self, size_bytes: int, seconds: float) -> None:
        """Note what a transaction held, and how long it took from its first record on."""
        in_time = int(size_bytes * _SECONDS / max(seconds, 0.001))
        if seconds > _SECONDS:
            self._set(min(self.size_bytes, in_time))
        elif size_bytes >= self.size_bytes:
            # A small one says nothing: it had no more to take.
            self._set(min(self.size_bytes * _GROWTH, max(self.size_bytes, in_time)))

    def failed(self) -> None:
        """Note a transaction that was not committed, whatever the reason."""
        self._set(self.size_bytes // _SHRINKAGE)

    def _set(self, size_bytes: int) -> None:
        self.size_bytes = min(max(size_bytes, _LEAST_BYTES), _MOST_BYTES)
