"""The limits of every shard of one instance: 1 MiB and 1,000 records per second in, 2 MiB and five
reads per second out.

Each instance counts what passes through itself: behind a load balancer, n instances allow up to n
times as much.
"""

import threading
from collections import OrderedDict
from typing import Final, NamedTuple

from headrace.gateway.http.token_bucket import TokenBucket

_MIB: Final = 1 << 20
_MOST_SHARDS: Final = 20_000


class _Buckets(NamedTuple):
    records_in: TokenBucket
    bytes_in: TokenBucket
    reads: TokenBucket
    bytes_out: TokenBucket


class ShardLimits:
    """One set of buckets per shard, the least recently used forgotten first.

    Threads: any.
    """

    def __init__(self, *, enabled: bool = True) -> None:
        self.enabled = enabled
        self._lock = threading.Lock()
        self._shards: OrderedDict[tuple[str, int], _Buckets] = OrderedDict()

    def allows_put(self, stream: str, shard: int, size_bytes: int, now: float) -> bool:
        """Count one record, unless the shard has had its share."""
        if not self.enabled:
            return True
        with self._lock:
            found = self._of(stream, shard, now)
            if not (found.records_in.allows(1, now) and found.bytes_in.allows(size_bytes, now)):
                return False
            found.records_in.take(1)
            found.bytes_in.take(size_bytes)
            return True

    def allows_read(self, stream: str, shard: int, now: float) -> bool:
        """Count one read, unless the shard has had its share or still pays for an earlier one."""
        if not self.enabled:
            return True
        with self._lock:
            found = self._of(stream, shard, now)
            if not (found.reads.allows(1, now) and found.bytes_out.allows(1, now)):
                return False
            found.reads.take(1)
            return True

    def count_read(self, stream: str, shard: int, size_bytes: int, now: float) -> None:
        """Count the bytes of a read, which are known only after it."""
        if self.enabled:
            with self._lock:
                self._of(stream, shard, now).bytes_out.take(size_bytes)

    def _of(self, stream: str, shard: int, now: float) -> _Buckets:
        found = self._shards.get((stream, shard))
        if found is None:
            found = _Buckets(
                TokenBucket(1000, now),
                TokenBucket(_MIB, now),
                TokenBucket(5, now),
                TokenBucket(2 * _MIB, now),
            )
            self._shards[stream, shard] = found
            if len(self._shards) > _MOST_SHARDS:
                self._shards.popitem(last=False)
        else:
            self._shards.move_to_end((stream, shard))
        return found
