"""Lands one channel: reads its shards, and writes a file when enough has come, or time is over.

The order is: begin (commit what the file has), write, finish (commit that it is there). A landing
that was begun and not finished is done again, from the log (`channel_state`, rule 1). A file is
written only when a fresh view says that this instance still has to, and once: see `_is_to_write`.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from headrace.client.read.offset_lookup import LATEST
from headrace.gateway.kinesis.channel.channel_state import (
    ChannelState,
    ChannelStatus,
    Landing,
    ShardRange,
)
from headrace.gateway.kinesis.error import ServiceError, internal_failure, not_found
from headrace.gateway.kinesis.landing.destination import Destination
from headrace.gateway.kinesis.landing.landed_file import LandedFiles, landed_files
from headrace.gateway.kinesis.landing.landing_buffer import LandingBuffer, ShardRows
from headrace.gateway.kinesis.operation.get import read_shard
from headrace.gateway.kinesis.service import KinesisService
from headrace.gateway.kinesis.store.lease import LEASE_SECONDS, lease_clock
from headrace.gateway.kinesis.store.stream_store import VOUCH_SECONDS
from headrace.gateway.kinesis.stream.shard import Shard
from headrace.gateway.kinesis.stream.stream_state import StreamState, StreamStatus
from headrace.model.ids import TopicPartition

_READ_ROWS: Final = 10_000
_READ_BYTES: Final = 4 << 20
_LONGEST_PAUSE: Final = 2.0


class Superseded(Exception):
    """Another instance lands this channel, or it is being deleted."""


class ChannelLander:
    """A channel that this instance owns in one epoch. One thread at a time.

    Args:
        most_bytes: returns how much of it may be in memory before a file is written.
    """

    def __init__(
        self,
        service: KinesisService,
        destination: Destination,
        channel: ChannelState,
        most_bytes: Callable[[], int],
    ) -> None:
        self._service = service
        self._destination = destination
        self._name = channel.name
        self._id = channel.id
        self.epoch = channel.epoch
        self._most_bytes = most_bytes
        self._buffer = LandingBuffer()
        self._landed = channel.landed
        self._files: LandedFiles | None = None
        self._written: set[str] = set()
        """Paths of `_files` that are written."""
        self._last_read = -1

    def step(self) -> float:
        """Do what is to be done next; return for how many seconds nothing is.

        Raises:
            Superseded: this instance does not land the channel any more.
            ServiceError, ClientError: the stream cannot be read, or the channel not changed.
            OSError: a file cannot be written.
        """
        channel = self._channel()
        stream = source_of(self._service, channel)
        if channel.landed != self._landed:  # also if a commit succeeded that seemed to have failed
            self._landed = channel.landed
            self._buffer = LandingBuffer()
        if channel.landing is not None:
            self._finish(channel, stream)
            return 0.0
        if channel.status is ChannelStatus.UPDATING:
            self._change(lambda current: replace(current, status=ChannelStatus.ACTIVE))
            return 0.0
        more, problem = self._read(channel, stream)
        now_ms, most_bytes = self._service.now_ms(), self._most_bytes()
        self._service.delivery.set_delay(self._name, self._buffer.delay_seconds(now_ms))
        if self._buffer.is_due(channel.freshness_seconds, most_bytes, now_ms, time.monotonic()):
            self._finish(self._begin(channel, stream), stream)
        if problem is not None:
            raise problem
        if channel.reason:
            self._change(lambda current: replace(current, reason=""))
        return 0.0 if more else min(_LONGEST_PAUSE, channel.freshness_seconds / 10)

    def _channel(self) -> ChannelState:
        channel = self._service.channels.channels.get(self._name)
        if channel is None or not self._is_own(channel):
            raise Superseded
        return channel

    def _is_own(self, channel: ChannelState) -> bool:
        own = (channel.id, channel.owner, channel.epoch)
        return (
            own == (self._id, self._service.store.tail.instance, self.epoch) and channel.is_running
        )

    def _change(self, change: Callable[[ChannelState], ChannelState]) -> ChannelState:
        def step(current: ChannelState | None) -> ChannelState:
            if current is None or not self._is_own(current):
                raise Superseded
            return change(current)

        changed = self._service.channels.change(self._name, step)
        assert changed is not None
        return changed

    def _read(self, channel: ChannelState, stream: StreamState) -> tuple[bool, ServiceError | None]:
        """Read each shard once; return whether records came, and what kept one from being read."""
        wanted = self._unread(channel, stream)
        # Not always from the first shard on: its records alone might fill the buffer.
        wanted = [each for each in wanted if each[0].number > self._last_read] + [
            each for each in wanted if each[0].number <= self._last_read
        ]
        more, problem = False, None
        for shard, position in wanted:
            room = self._most_bytes() - self._buffer.size_bytes
            if room <= 0:
                break
            self._last_read = shard.number
            try:
                read = read_shard(
                    self._service,
                    stream,
                    shard,
                    position,
                    _READ_ROWS,
                    most_bytes=min(room, _READ_BYTES),
                )
            except ServiceError as error:
                problem = error
                continue
            self._buffer.add(read.shard, read.rows, read.next_offset, time.monotonic())
            more = more or bool(read.rows)
        return more, problem

    def _unread(self, channel: ChannelState, stream: StreamState) -> list[tuple[Shard, int]]:
        """Return the shards that have more, with the next offset of each."""
        positions = [(each, self._buffer.position(channel, each)) for each in stream.shards]
        known = [(shard, at) for shard, at in positions if at is not None]
        partitions = {
            shard.number: TopicPartition(stream.name, shard.partition)
            for shard, _ in known
            if shard.is_open
        }
        ends = self._service.reader.offsets_at(list(partitions.values()), LATEST)
        found = []
        for shard, at in known:
            end = shard.last if shard.last is not None else ends[partitions[shard.number]]
            if at < end:
                found.append((shard, at))
        return sorted(found, key=lambda each: each[0].number)

    def _begin(self, channel: ChannelState, stream: StreamState) -> ChannelState:
        """Commit what the next file has."""
        ranges = self._buffer.ranges(channel, stream.shards)
        landing = channel.next_landing(ranges, self._buffer.oldest_ms)
        self._files = landed_files(channel, landing, self._buffer.parts)
        self._written.clear()
        return self._change(lambda current: current.begun(landing))

    def _finish(self, channel: ChannelState, stream: StreamState) -> None:
        """Write the files of the landing that was begun, and commit that they are there.

        A commit that failed is tried again alone: a reader may have taken the files away by then.
        """
        landing = channel.landing
        assert landing is not None
        files = self._files
        if files is None or files.landing != landing:
            for epoch in range(landing.epoch, self.epoch):
                for path in (landing.path, landing.error_path):
                    self._destination.remove_partial(path, epoch)
            self._files = files = landed_files(
                channel, landing, self._read_again(stream, landing.ranges)
            )
            self._written.clear()
        for path, content in files.files.items():
            if path not in self._written:
                if not self._is_to_write(landing):
                    return
                self._destination.write(path, content, self.epoch)
                self._written.add(path)
        self._change(
            lambda current: (
                current.finished(stream.shards) if current.landing == landing else current
            )
        )
        self._files = None
        self._service.delivery.count(
            self._name,
            files=len(files.files),
            records=files.records,
            bytes=files.data_bytes,
            dead_letters=files.dead_letters,
        )

    def _is_to_write(self, landing: Landing) -> bool:
        """Return whether a landing is not finished, according to a view that is fresh.

        An owner that is cut off does not know that it was replaced. The file of its successor may
        be read and gone already, and must not come again.

        Raises:
            Superseded: another instance lands this channel.
            ServiceError: the view cannot be confirmed.
        """
        tail = self._service.store.tail
        is_fresh = lease_clock() < tail.confirmed_at + LEASE_SECONDS
        if not is_fresh and not tail.refresh(VOUCH_SECONDS):
            raise internal_failure("The owner of the channel cannot be confirmed in time.")
        return self._channel().landing == landing

    def _read_again(self, stream: StreamState, ranges: tuple[ShardRange, ...]) -> list[ShardRows]:
        """Read what a landing has. What the retention has taken since it began is not there.

        Raises:
            ServiceError: a shard does not show all that was promised. A leader that was elected
                just now may take a moment until it shows what its predecessor has shown.
        """
        parts = []
        for number, start, end in ranges:
            shard = stream.shard(number)
            if shard is None:
                continue
            part = ShardRows(shard, [])
            while start < end:
                read = read_shard(
                    self._service, stream, shard, start, _READ_ROWS, most_bytes=_READ_BYTES
                )
                part.rows.extend(row for row in read.rows if row.offset < end)
                if read.at_end:
                    break
                if read.next_offset <= start:
                    raise internal_failure(f"{shard.id} does not show its records up to {end} yet.")
                start = read.next_offset
            if part.rows:
                parts.append(part)
        return sorted(parts, key=lambda each: each.shard.number)


def source_of(service: KinesisService, channel: ChannelState) -> StreamState:
    """Return the stream of a channel.

    Raises:
        ServiceError: it is gone.
    """
    stream = service.store.streams.get(channel.stream)
    if stream is None or not channel.is_of(stream) or stream.status is StreamStatus.DELETING:
        raise not_found(f"Stream {channel.stream} of this channel does not exist any more.")
    return stream
