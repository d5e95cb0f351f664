"""Copies one share of a flow, until it is asked to end or a cluster goes away.

Theory of operation. A thread fetches from the source (`SourceFetcher`); this one writes what it
brings to the target and commits it together with the new positions. When the thread has more ready,
it joins the same transaction, up to the flow's `TransactionLimit`; when it has not, the transaction
is committed at once, so that few records do not wait for more.

Rule 1: positions are read after the transactional id was taken over: a transaction of a process
        that was killed is aborted by then, and none of another process can follow.
Rule 2: a partition has a position at the target before its first record is written. A topic there
        that has records but no position was not filled by this flow: it is left alone, and said.
Rule 3: all positions are committed again every hour, because a broker forgets offsets of groups
        that have no members.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import structlog

from headrace.client.error import BrokerError, ClientError, WriteFailed
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import LogExtent, extents
from headrace.client.settings import ClientSettings
from headrace.mirror.process.figures import FlowFigures
from headrace.mirror.process.offset_syncs import OffsetSyncs
from headrace.mirror.process.position import Position, position_group, read_positions
from headrace.mirror.process.share import Share
from headrace.mirror.process.source_batches import SourceBatches
from headrace.mirror.process.source_fetcher import FetchRound, SourceFetcher
from headrace.mirror.process.source_state import Stopped, StopReason, recreated
from headrace.mirror.process.target_writer import TargetWriter
from headrace.mirror.process.transaction_limit import TransactionLimit
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

_log = structlog.get_logger(__name__)

_TRANSACTION_SECONDS: Final = 0.5
_PART_BYTES: Final = 128 << 10
_IDLE_SECONDS: Final = 0.2
_MOVED_SECONDS: Final = 1.0
_REFRESH_SECONDS: Final = 3600.0

# The target will not take this partition's records at the next try, either.
_REFUSED: Final = frozenset(
    {
        ErrorCode.message_too_large,
        ErrorCode.record_list_too_large,
        ErrorCode.invalid_record,
        ErrorCode.invalid_timestamp,
        ErrorCode.unsupported_compression_type,
        ErrorCode.topic_authorization_failed,
        ErrorCode.policy_violation,
    }
)


class Copier:
    """One run over one share. A flow makes another one after an error, or for another share.

    Args:
        name: of the flow.
        transactional_id: of the flow, or of this instance.
        stopped: partitions of the source that are left alone; those that stop are added.
        limit: how much a transaction may hold; the flow keeps it for its next run.
    """

    def __init__(
        self,
        name: str,
        share: Share,
        source: ClientSettings,
        target: ClientSettings,
        *,
        transactional_id: str,
        figures: FlowFigures,
        syncs: OffsetSyncs,
        stopped: dict[TopicPartition, Stopped],
        limit: TransactionLimit,
    ) -> None:
        self._name = name
        self._source = source
        self._figures = figures
        self._syncs = syncs
        self._stopped = stopped
        self._limit = limit
        self._share = share
        self._remote = share.pairs
        self._positions: dict[TopicPartition, Position] = {}
        self._moved: dict[TopicPartition, Position] = {}
        self._left: deque[SourceBatches] = deque()
        self._committed_at = 0.0
        self._refreshed_at = 0.0
        self.writer = TargetWriter(target, transactional_id, position_group(name), share.membership)

    def run(self, ends: Callable[[], bool]) -> None:
        """Copy until `ends`, then commit and return.

        Raises:
            ProducerFenced: another process has the flow, or a transaction took too long.
            ClientError: one of the clusters is away, or refuses something.
        """
        self.writer.open()
        leaders = self._find_positions()
        self._commit(self._positions)
        self._refreshed_at = time.monotonic()
        self._figures.runs(True)
        copied = {
            here: self._positions[there]
            for here, there in self._remote.items()
            if there in self._positions
        }
        with SourceFetcher(self._source, copied, leaders=leaders) as fetcher:
            while not ends():
                if self._left or self._take(fetcher.next(_IDLE_SECONDS)):
                    self._copy(fetcher)
                elif self._moved and time.monotonic() - self._committed_at > _MOVED_SECONDS:
                    self._commit(self._moved)
                if time.monotonic() - self._refreshed_at > _REFRESH_SECONDS:
                    self._refreshed_at = time.monotonic()
                    self._commit(self._positions)
        if self._moved:
            self._commit(self._moved)

    def close(self) -> None:
        """Disconnect from the target."""
        self._figures.runs(False)
        self.writer.close()

    # -- where to begin

    def _find_positions(self) -> int:
        """Set the position of every partition that is copied; return how many leaders there are."""
        if not self._remote:
            return 0
        known = read_positions(self.writer.pool, self._name, list(self._remote.values()))
        ids = {topic.name: topic.topic_id for topic in self._share.plan.topics}
        new = []
        for here, there in self._remote.items():
            position = known.get(there)
            if here in self._stopped:
                continue
            if position is None:
                new.append(here)
                continue
            problem = recreated(here, position.topic_id, ids[here.topic])
            if problem is not None:
                self._stop(here, problem)
            else:
                self._positions[there] = position
        with ConnectionPool(self._source) as pool:
            self._begin(pool, new, ids)
            metadata = pool.metadata(list(ids))
        copied = [here for here, there in self._remote.items() if there in self._positions]
        return len({metadata.leader(each) for each in copied})

    def _begin(
        self, pool: ConnectionPool, new: list[TopicPartition], ids: Mapping[str, object]
    ) -> None:
        """Begin with partitions that have no position: at the start of their logs."""
        if not new:
            return
        starts = extents(pool, new, read_committed=True)
        there = extents(self.writer.pool, [self._remote[each] for each in new])
        for partition in new:
            remote = self._remote[partition]
            ours, theirs = starts[partition], there[remote]
            if isinstance(ours, ClientError):
                raise ours
            if isinstance(theirs, ClientError):
                raise theirs
            if theirs.end > 0:
                self._stop(partition, _no_position(partition, remote, theirs, self._name))
            else:
                topic_id = ids[partition.topic]
                self._positions[remote] = Position(ours.start, -1, topic_id)  # type: ignore[arg-type]

    # -- one transaction

    def _take(self, found: FetchRound | None) -> bool:
        """Note what a round brought; return whether there was one."""
        if found is None:
            return False
        self._note(found)
        self._left.extend(found.batches)
        return True

    def _copy(self, fetcher: SourceFetcher) -> None:
        """Write what was fetched, and more that is ready, and commit it. What the transaction has
        no room for is left for the next one."""
        self.writer.begin()
        began = time.monotonic()
        copied: list[SourceBatches] = []
        size_bytes = 0
        try:
            while True:
                size_bytes += self._write_some(copied, self._limit.size_bytes - size_bytes, began)
                if self._left or time.monotonic() - began > _TRANSACTION_SECONDS:
                    break
                if not self._take(fetcher.next(0)):
                    break
            if not size_bytes and time.monotonic() - self._committed_at < _MOVED_SECONDS:
                self.writer.commit({})  # nothing was written: no request is sent
                return
            self._finish(copied)
        except BaseException as error:
            self._limit.failed()
            if isinstance(error, WriteFailed):
                self._stop_refused(error)
            raise
        self._limit.committed(size_bytes, time.monotonic() - began)

    def _write_some(self, copied: list[SourceBatches], most_bytes: int, began: float) -> int:
        """Write as much as a transaction has room and time for, and at least one batch in all;
        return how many bytes. Waits while the target is slow."""
        size_bytes = 0
        while self._left:
            # A little of each partition, so that a request to the target has batches of all.
            for _ in range(len(self._left)):
                if copied and size_bytes >= most_bytes:
                    return size_bytes
                part_bytes = min(_PART_BYTES, most_bytes - size_bytes)
                batches, rest = self._left.popleft().split(part_bytes)
                if rest is not None:
                    self._left.append(rest)
                size_bytes += self._write(batches)
                copied.append(batches.without_bytes())
            self.writer.send()
            if time.monotonic() - began > _TRANSACTION_SECONDS:
                break
        return size_bytes

    def _write(self, batches: SourceBatches) -> int:
        remote = self._remote[batches.partition]
        before = self._positions[remote]
        position = Position(
            batches.next_offset, batches.last_epoch, before.topic_id or batches.topic_id
        )
        self._positions[remote] = self._moved[remote] = position
        if batches.batches:
            self.writer.write(remote, batches)
        return batches.size_bytes

    def _finish(self, copied: list[SourceBatches]) -> None:
        self.writer.commit(self._moved)
        self._moved = {}
        self._committed_at = time.monotonic()
        self._figures.committed()
        for batches in copied:
            self._figures.copied(batches)
        pairs = self.writer.take_pairs()
        for partition in dict.fromkeys(batches.partition for batches in copied):
            self._syncs.copied(partition, pairs.get(self._remote[partition], ()))

    def _commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Commit positions without records."""
        self.writer.begin()
        self.writer.commit(positions)
        self._committed_at = time.monotonic()
        self._moved = {}

    # -- what is wrong with a partition

    def _note(self, found: FetchRound) -> None:
        for partition, count in found.lost.items():
            remote = self._remote[partition]
            before = self._positions[remote]
            passed = replace(before, offset=before.offset + count, leader_epoch=-1)
            self._positions[remote] = self._moved[remote] = passed
            self._figures.lost(partition, count)
            _log.error(
                "mirror_records_lost",
                flow=self._name,
                partition=str(partition),
                offsets=count,
                reason="the source's retention removed them before they were copied",
            )
        for partition, stopped in found.stopped.items():
            self._stop(partition, stopped)

    def _stop(self, partition: TopicPartition, stopped: Stopped) -> None:
        self._stopped[partition] = stopped
        self._figures.stopped(self._stopped)
        _log.error(
            "mirror_partition_stopped",
            flow=self._name,
            partition=str(partition),
            reason=stopped.reason.value,
            message=stopped.message,
        )

    def _stop_refused(self, error: WriteFailed) -> None:
        if not isinstance(error.reason, BrokerError) or error.reason.code not in _REFUSED:
            return
        for here, there in self._remote.items():
            if there == error.partition:
                self._stop(here, Stopped(StopReason.REFUSED, f"{here}: {error}"))


def _no_position(
    partition: TopicPartition, remote: TopicPartition, extent: LogExtent, flow: str
) -> Stopped:
    return Stopped(
        StopReason.UNKNOWN_POSITION,
        f"{partition}: {remote} has {extent.end - extent.start} records at the target, and the "
        f"group {position_group(flow)} has no position for it. Delete the topic at the target to "
        "copy it from the beginning, or commit the source's next offset for it in this group",
    )
