"""The newest offset of each key, in a table of bounded memory: what compaction decides by."""

import os
from collections.abc import Iterator

import numpy as np

from headrace.model.error import InvalidArgument
from headrace.records.kernel import key_map
from headrace.records.kernel.memory import Bytes, Int64s, readable

SLOT_BYTES = key_map.SLOT_WORDS * 8
DEFAULT_LOAD_FACTOR = 0.9
_SECRET_BYTES = 16
_SLOTS_AT_ONCE = 1 << 18


class OffsetMap:
    """Open addressing with linear probing: 24 bytes per key, 16 of hash and 8 of offset.

    A key itself is not kept, only its SipHash-2-4 of 128 bits, under a random secret of each map.
    Two keys with the same hash would count as one, and the older would be lost. With the five
    million keys that 128 MiB hold, that has a probability of about 4e-26 for a whole compaction,
    and without the secret no producer can search for two such keys.

    Invariant: at least one slot is free, so that a search ends.
    Memory: `memory_bytes`, or less when `reset` expects fewer keys.
    Threads: one at a time. Not on disk: a crash loses nothing.
    """

    def __init__(
        self,
        memory_bytes: int,
        load_factor: float = DEFAULT_LOAD_FACTOR,
        *,
        secret: bytes | None = None,
    ) -> None:
        if memory_bytes < 2 * SLOT_BYTES:
            raise InvalidArgument(
                f"an offset map of {memory_bytes} bytes holds no key: "
                f"give it at least {2 * SLOT_BYTES}"
            )
        if not 0 < load_factor < 1:
            raise InvalidArgument(f"load factor {load_factor} must lie between 0 and 1")
        if secret is not None and len(secret) != _SECRET_BYTES:
            raise InvalidArgument(f"the secret has {len(secret)} bytes, not {_SECRET_BYTES}")
        self._max_slots = memory_bytes // SLOT_BYTES
        self._load_factor = load_factor
        self._secret = secret
        self.reset(0)

    def reset(self, expected_keys: int) -> None:
        """Forget everything and make room for `expected_keys`, as far as the memory goes."""
        enough = int(expected_keys / self._load_factor) + 2
        slots = max(2, min(self._max_slots, enough))
        # From calloc: pages that no key falls into are never touched.
        self.table = np.zeros((slots, key_map.SLOT_WORDS), dtype=np.uint64)
        capacity = min(slots - 1, max(1, int(slots * self._load_factor)))
        self._state = np.array([0, capacity], dtype=np.int64)
        words = np.frombuffer(self._secret or os.urandom(_SECRET_BYTES), dtype=np.uint64)
        self.secret = words[0], words[1]

    @property
    def used(self) -> int:
        """How many keys it holds."""
        return int(self._state[key_map.USED])

    @property
    def capacity(self) -> int:
        """How many keys it may hold."""
        return int(self._state[key_map.CAPACITY])

    @property
    def memory_bytes(self) -> int:
        return self.table.nbytes

    def fill(
        self, body: Bytes, batches: Int64s, first: int, last: int, start_offset: int
    ) -> tuple[int, int]:
        """Map the keys of some batches; see `kernel.key_map.fill` for what it returns."""
        row, offset = key_map.fill(
            body, batches, first, last, start_offset, *self.secret, self.table, self._state
        )
        return int(row), int(offset)

    def newest_offsets(self) -> Iterator[Int64s]:
        """Yield the newest offset of every key, in no order, many at a time."""
        for first in range(0, len(self.table), _SLOTS_AT_ONCE):
            slots = self.table[first : first + _SLOTS_AT_ONCE, key_map.SLOT_WORDS - 1]
            yield slots[slots != 0].astype(np.int64) - 1  # 0 marks a free slot

    def newest(self, key: bytes) -> int | None:
        """Return the newest offset mapped for `key`, or None; for tests and for inspection."""
        offset = int(key_map.newest_offset(readable(key), *self.secret, self.table))
        return offset if offset >= 0 else None
