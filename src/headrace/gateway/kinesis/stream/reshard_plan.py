"""Plans splits, merges and new shard counts, with the service's checks.

A shard has at most two parents and, by one split, two children. A new shard count is therefore a
row of splits at the boundaries of the target ranges, and of merges of what lies inside them.
Shards in between are opened and closed at once; they have no partition.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from headrace.gateway.kinesis.error import in_use, invalid_argument, limit_exceeded, not_found
from headrace.gateway.kinesis.stream.hash_key import HashRange, uniform_ranges
from headrace.gateway.kinesis.stream.shard import NO_PARTITION, Shard, shard_number
from headrace.gateway.kinesis.stream.stream_state import Reshard, StreamState, StreamStatus

MOST_SHARDS: Final = 10_000
_SECOND_MS: Final = 1000


def plan_split(
    stream: StreamState, account: str, shard_id: str, new_starting_key: int, now_ms: int
) -> Reshard:
    """Plan SplitShard.

    Raises:
        ServiceError: the stream is busy, the shard is gone, or the key is not inside it.
    """
    check_active(stream, account)
    shard = _open_shard(stream, account, shard_id)
    if not shard.keys.start + 1 < new_starting_key < shard.keys.end:
        raise invalid_argument(
            f"NewStartingHashKey {new_starting_key} used in SplitShard() on shard {shard.id} in "
            f"stream {stream.name} under account {account} is not both greater than one plus the "
            f"shard's StartingHashKey {shard.keys.start} and less than the shard's EndingHashKey "
            f"{shard.keys.end - 1}."
        )
    row = _Row(stream, now_ms)
    row.split(shard, new_starting_key)
    return row.reshard()


def plan_merge(
    stream: StreamState, account: str, shard_id: str, adjacent_id: str, now_ms: int
) -> Reshard:
    """Plan MergeShards.

    Raises:
        ServiceError: the stream is busy, a shard is gone, or the two are not neighbours.
    """
    check_active(stream, account)
    one = _open_shard(stream, account, shard_id)
    other = _open_shard(stream, account, adjacent_id)
    if one.keys.end + 1 != other.keys.start and other.keys.end + 1 != one.keys.start:
        raise invalid_argument(
            f"Shards {one.id} and {other.id} in stream {stream.name} under account {account} are "
            "not an adjacent pair of shards eligible for merging"
        )
    row = _Row(stream, now_ms)
    row.merge(one, other)
    return row.reshard()


def plan_shard_count(stream: StreamState, account: str, target: int, now_ms: int) -> Reshard | None:
    """Plan UpdateShardCount. Returns None if the shards are as wished already.

    Raises:
        ServiceError: the stream is busy, or the target is too far away.
    """
    check_active(stream, account)
    current = len(stream.open_shards)
    if target > 2 * current:
        raise limit_exceeded(
            "UpdateShardCount cannot scale up over double your current open shard count. "
            f"Current open shard count: {current} Target shard count: {target}"
        )
    if target < -(-current // 2):
        raise limit_exceeded(
            "UpdateShardCount cannot scale down below half your current open shard count. "
            f"Current open shard count: {current} Target shard count: {target}"
        )
    if target > MOST_SHARDS:
        raise limit_exceeded(f"A stream has at most {MOST_SHARDS} shards.")
    return plan_uniform(stream, target, now_ms)


def plan_uniform(stream: StreamState, target: int, now_ms: int) -> Reshard | None:
    """Plan any number of shards of equal size, for a stream that no other change is under way of.

    Returns None if the shards are as wished already.
    """
    row = _Row(stream, now_ms)
    pieces = stream.open_shards
    ranges = uniform_ranges(target)
    for keys in ranges[1:]:
        pieces = row.cut(pieces, keys.start)
    for keys in ranges:
        row.join([each for each in pieces if each.keys.start in keys])
    return row.reshard() if row.closing else None


class _Row:
    """A row of splits and merges of one stream."""

    def __init__(self, stream: StreamState, now_ms: int) -> None:
        self._next_number = 1 + max(each.number for each in stream.shards)
        self._next_partition = stream.partition_count
        self._known = {each.number for each in stream.shards}
        self._now_ms = now_ms
        self._opened: list[Shard] = []
        self._passing: set[int] = set()
        self.closing: list[int] = []

    def split(self, shard: Shard, key: int) -> tuple[Shard, Shard]:
        self._close(shard)
        low = self._open(HashRange(shard.keys.start, key - 1), shard)
        high = self._open(HashRange(key, shard.keys.end), shard)
        return low, high

    def merge(self, one: Shard, other: Shard) -> Shard:
        self._close(one)
        self._close(other)
        keys = HashRange(min(one.keys.start, other.keys.start), max(one.keys.end, other.keys.end))
        return self._open(keys, one, other)

    def cut(self, pieces: Sequence[Shard], key: int) -> list[Shard]:
        """Split the piece that has this key, unless it begins with it."""
        cut: list[Shard] = []
        for each in pieces:
            inside = key in each.keys and key != each.keys.start
            cut += self.split(each, key) if inside else [each]
        return cut

    def join(self, pieces: Sequence[Shard]) -> None:
        """Merge neighbours into one."""
        whole = pieces[0]
        for each in pieces[1:]:
            whole = self.merge(whole, each)

    def reshard(self) -> Reshard:
        """Return the announcement. Only shards that stay open get a partition."""
        opening = []
        for each in self._opened:
            if each.number in self._passing:
                opening.append(each)
            else:
                opening.append(replace(each, partition=self._next_partition))
                self._next_partition += 1
        return Reshard(tuple(self.closing), tuple(opening))

    def _close(self, shard: Shard) -> None:
        if shard.number in self._known:
            self.closing.append(shard.number)
        else:
            self._passing.add(shard.number)

    def _open(self, keys: HashRange, parent: Shard, adjacent: Shard | None = None) -> Shard:
        parents = [parent] if adjacent is None else [parent, adjacent]
        created_ms = max(self._now_ms, *(each.created_ms + _SECOND_MS for each in parents))
        shard = Shard(
            number=self._next_number,
            partition=NO_PARTITION,
            keys=keys,
            created_ms=created_ms,
            parent=parent.number,
            adjacent_parent=None if adjacent is None else adjacent.number,
        )
        self._next_number += 1
        self._opened.append(shard)
        return shard


def check_active(stream: StreamState, account: str) -> None:
    """Refuse a change of a stream that another change is not finished with."""
    if stream.status is not StreamStatus.ACTIVE:
        raise in_use(
            f"Stream {stream.name} under account {account} not ACTIVE, "
            f"instead in state {stream.status}"
        )


def _open_shard(stream: StreamState, account: str, shard_id: str) -> Shard:
    number = shard_number(shard_id)
    shard = None if number is None else stream.shard(number)
    if shard is None:
        raise not_found(
            f"Could not find shard {shard_id} in stream {stream.name} under account {account}."
        )
    if not shard.is_open:
        raise invalid_argument(
            f"Shard {shard.id} in stream {stream.name} under account {account} has already been "
            "merged or split, and thus is not eligible for merging or splitting."
        )
    return shard
