"""The memory of all loaded indexes together, bounded."""

from collections import OrderedDict
from threading import Lock
from typing import Protocol

from headrace.model.error import InvalidArgument

# A full index of a 1 GiB segment is 2 MiB, so this keeps dozens of segments being caught up on at
# once. Kafka maps its indexes and leaves the choice to the page cache.
DEFAULT_MAX_BYTES = 64 * 1024 * 1024


class CacheableIndex(Protocol):
    """Something that holds entries in memory and can read them again."""

    touched: bool
    """Set by every use, cleared by the cache: the second chance of the clock algorithm."""

    def unload(self) -> None:
        """Let go of the entries. Readers that hold them finish with them undisturbed."""


class IndexCache:
    """Decides which indexes keep their entries in memory, by the clock algorithm.

    Invariant: what the loaded indexes hold stays within `max_bytes`, give or take the last one.
    A use costs its index one attribute (`touched`), never a lock: the cost lies with loading.

    Threads: any may call any method. `unload` is called with the cache's lock held, so it must not
    call the cache.
    """

    def __init__(self, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        if max_bytes < 0:
            raise InvalidArgument(f"an index cache cannot hold {max_bytes} bytes")
        self.max_bytes = max_bytes
        self._bytes = 0
        self._held: OrderedDict[int, tuple[CacheableIndex, int]] = OrderedDict()
        self._lock = Lock()

    @property
    def loaded_bytes(self) -> int:
        return self._bytes

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, index: CacheableIndex, size_bytes: int) -> None:
        """Count `size_bytes` for `index`; others may be unloaded to make room."""
        with self._lock:
            self._release(id(index))
            self._held[id(index)] = (index, size_bytes)
            self._bytes += size_bytes
            index.touched = True
            self._sweep(spare=index)

    def release(self, index: CacheableIndex) -> None:
        """Stop counting `index`, which let go by itself (closed, emptied, its file removed)."""
        with self._lock:
            self._release(id(index))

    def _release(self, key: int) -> None:
        held = self._held.pop(key, None)
        if held is not None:
            self._bytes -= held[1]

    def _sweep(self, spare: CacheableIndex) -> None:
        chances = len(self._held)
        while self._bytes > self.max_bytes and len(self._held) > 1:
            key, (index, size_bytes) = next(iter(self._held.items()))
            if index is spare or (index.touched and chances > 0):
                index.touched = index is spare
                chances -= 1
                self._held.move_to_end(key)
                continue
            del self._held[key]
            self._bytes -= size_bytes
            index.unload()
