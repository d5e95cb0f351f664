"""The records of a channel that are in no file yet."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from headrace.gateway.kinesis.channel.channel_state import ChannelState, ShardRange
from headrace.gateway.kinesis.record.row import StoredRow
from headrace.gateway.kinesis.stream.shard import Shard

_ROW_BYTES: Final = 200
"""What a row takes in memory besides its key and data."""


class ShardRows(NamedTuple):
    """Records of one shard, in their order."""

    shard: Shard
    rows: list[StoredRow]


class LandingBuffer:
    """What was read since the last landing.

    It begins at the positions that a channel has committed, and is of no use when these change.
    """

    def __init__(self) -> None:
        self._parts: dict[int, ShardRows] = {}
        self._ends: dict[int, int] = {}
        self.size_bytes = 0
        self._oldest_ms: int | None = None
        self._began = 0.0

    def position(self, channel: ChannelState, shard: Shard) -> int | None:
        """Return where to read a shard on, or None if the channel does not have it."""
        found = self._ends.get(shard.number)
        return channel.position(shard) if found is None else found

    def add(self, shard: Shard, rows: Sequence[StoredRow], end: int, now: float) -> None:
        """Take what was read of a shard.

        Args:
            end: where to read on.
            now: of a clock that never goes back, in seconds.
        """
        self._ends[shard.number] = end
        if not rows:
            return
        if self._oldest_ms is None:
            self._began = now
            self._oldest_ms = rows[0].time_ms
        self._oldest_ms = min(self._oldest_ms, rows[0].time_ms)
        self._parts.setdefault(shard.number, ShardRows(shard, [])).rows.extend(rows)
        self.size_bytes += sum(len(each.key or b"") + len(each.value) + _ROW_BYTES for each in rows)

    @property
    def parts(self) -> list[ShardRows]:
        """The records by shard, in the order of the shards' numbers."""
        return [self._parts[number] for number in sorted(self._parts)]

    @property
    def oldest_ms(self) -> int:
        """When the oldest record arrived. There is one."""
        assert self._oldest_ms is not None
        return self._oldest_ms

    def ranges(self, channel: ChannelState, shards: Sequence[Shard]) -> list[ShardRange]:
        """Return the offsets that were read, of shards that the stream still has."""
        found = []
        for shard in shards:
            start, end = channel.position(shard), self._ends.get(shard.number)
            if start is not None and end is not None and end > start:
                found.append(ShardRange(shard.number, start, end))
        return found

    def delay_seconds(self, now_ms: int) -> float:
        """Return the age of the oldest record."""
        return 0.0 if self._oldest_ms is None else max(0, now_ms - self._oldest_ms) / 1000

    def is_due(self, freshness_seconds: int, most_bytes: int, now_ms: int, now: float) -> bool:
        """Return whether it is time for a file: it is full, or a record is old enough.

        The age is that by the broker's clock, or the time since the record was read: a broker whose
        clock is ahead must not delay the file.
        """
        if self._oldest_ms is None:
            return False
        age = max(self.delay_seconds(now_ms), now - self._began)
        return self.size_bytes >= most_bytes or age >= freshness_seconds
