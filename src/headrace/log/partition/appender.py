"""Appending batches to a log: from clients, from coordinators, and from the leader."""

from collections.abc import Sequence
from typing import TypeGuard

from headrace.log.filesystem import Bytes
from headrace.log.partition.admission import admit, unchecked
from headrace.log.partition.append_failure import append_failure, roll_failure, write_failure
from headrace.log.partition.appended import Appended
from headrace.log.partition.log_state import LogState, Tip
from headrace.log.partition.plain_append import PlainAppend
from headrace.log.partition.producer_check import ProducerCheck
from headrace.log.partition.segment_roller import SegmentRoller
from headrace.log.producer.producer_replay import remember_batch
from headrace.log.producer.producer_state import AppendOrigin
from headrace.log.segment.placed_batch import PlacedBatch
from headrace.model.error import InvalidArgument, UnexpectedAppendOffset
from headrace.model.offset import NO_TIMESTAMP_MS, LogStartOffset, Offset
from headrace.records.batch import LOG_OVERHEAD, Batch, stamp
from headrace.records.control import ControlType, build_marker, read_control

# Builds a NamedTuple in half the time its own constructor needs.
_new = tuple.__new__


def _is_flat(records: Bytes) -> TypeGuard[memoryview]:
    return type(records) is memoryview and records.format == "B"


def _check_marker(batch: Batch) -> None:
    """Read a marker before it is written: a log with one that cannot be read would not open."""
    control = read_control(batch)
    if control is not None and control.ends_transaction:
        _ = control.coordinator_epoch


class Appender:
    """Checks, stamps and writes batches at the end of the log, and rolls segments.

    Invariant: what memory claims is in the file. The file may hold more after a failed write; the
    next one goes over it.

    Threads: one appends.
    """

    __slots__ = ("_log", "_plain", "_producers", "_roller")

    def __init__(self, log: LogState, plain: PlainAppend, roller: SegmentRoller) -> None:
        self._log = log
        self._plain = plain
        self._roller = roller
        self._producers = ProducerCheck(log)

    def append(
        self,
        records: Bytes,
        leader_epoch: int,
        *,
        from_client: bool = True,
        strict_start: bool = False,
        admitted: list[Batch] | None = None,
    ) -> Appended:
        """Check one or more whole batches, give them the next offsets, and write them.

        Nothing is copied: a new head of 16 bytes goes before the rest of each batch as it came.

        Args:
            from_client: False for batches the broker builds itself (group offsets, transaction
                state): their epoch is checked but not sequence, key, time or size.
            strict_start: a transaction version 2 producer that is not known here must begin at
                sequence 0 (KIP-890).
            admitted: what `PartitionLog.admit` returned for `records`, in another thread.

        Raises:
            CorruptBatch, UnsupportedBatch, BatchTooLarge, InvalidRecord, InvalidTimestamp: the
                batch cannot be appended to this log.
            OutOfOrderSequence, InvalidProducerEpoch, InvalidTransactionState: its producer is
                behind, fenced or in another transaction.
            DiskFull, StorageError: it could not be written; nothing of it is in the log.
        """
        if admitted is None and from_client and _is_flat(records):
            appended = self._plain.append(records, leader_epoch, joined=True)
            if appended is not None:
                return appended
        log = self._log
        config = log.config
        now_ms = log.storage.clock.wall_ms()
        batches = admitted
        if batches is None:
            batches = admit(records, config, now_ms) if from_client else unchecked(records)
        if leader_epoch < 0:
            raise InvalidArgument(f"a leader appends with its epoch, not with {leader_epoch}")
        origin = AppendOrigin.CLIENT if from_client else AppendOrigin.COORDINATOR
        with log.lock:
            duplicate = self._producers.check(batches, origin, strict_start)
            if duplicate is not None:
                return Appended(
                    base_offset=duplicate.base_offset,
                    last_offset=duplicate.last_offset,
                    log_append_time_ms=(
                        duplicate.timestamp_ms if config.log_append_time else NO_TIMESTAMP_MS
                    ),
                    log_start_offset=LogStartOffset(log.log_start),
                    duplicate=True,
                )
            append_time_ms = now_ms if config.log_append_time else None
            return self._append_stamped(batches, leader_epoch, append_time_ms)

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        leader_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        transaction_version: int = 0,
        checked: bool = True,
    ) -> Appended:
        """End a producer's transaction in this partition with a COMMIT or an ABORT marker.

        Args:
            checked: False for a marker that no coordinator sent, whatever epoch it has.

        Raises:
            InvalidProducerEpoch, CoordinatorFenced: from a coordinator that is behind.
        """
        log = self._log
        marker = build_marker(
            ControlType.COMMIT if commit else ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=log.storage.clock.wall_ms(),
        )
        with log.lock:
            if checked:
                log.producers.check_marker(
                    producer_id,
                    producer_epoch,
                    coordinator_epoch,
                    transaction_version=transaction_version,
                )
            return self._append_stamped([Batch(marker)], leader_epoch, None)

    def append_as_follower(self, records: Bytes) -> Appended:
        """Write batches fetched from the leader, with the offsets and epochs they have.

        A last batch that the fetch cut off is left out. The first batch of an empty log may begin
        below the log start and reach across it, if the segment begins low enough
        (`PartitionLog.restart_with`).

        Raises:
            UnexpectedAppendOffset: a batch lies below the log end: truncate first.
            CorruptBatch: a batch, or the marker in it, cannot be read; nothing was written.
        """
        if _is_flat(records):
            appended = self._plain.append(records, None, joined=True)
            if appended is not None:
                return appended
        log = self._log
        batches = unchecked(records, whole=False)
        with log.lock:
            next_offset = log.tip.end_offset
            placed: list[PlacedBatch] = []
            for batch in batches:
                if batch.base_offset < next_offset and (placed or not self._spans_start(batch)):
                    raise UnexpectedAppendOffset(
                        f"{log.partition} ends at {next_offset}, so a batch from the leader "
                        f"cannot start at {batch.base_offset}"
                    )
                if batch.is_control and batch.producer_id >= 0:
                    _check_marker(batch)
                last_offset = batch.last_offset
                placed.append(
                    PlacedBatch(batch, batch.base_offset, last_offset, batch.max_timestamp)
                )
                next_offset = last_offset + 1
            if not placed:
                return Appended(log_start_offset=LogStartOffset(log.log_start))
            view = batches[0].buffer[batches[0].position : batches[-1].end]
            return self._write([view], len(view), placed)

    def _spans_start(self, batch: Batch) -> bool:
        """Return whether a batch is the first of an empty log that starts in the middle of it."""
        log, tip = self._log, self._log.tip
        return (
            log.log_start == tip.end_offset
            and tip.size_bytes == 0
            and tip.segment.base_offset <= batch.base_offset
            and batch.last_offset >= tip.end_offset
        )

    def _append_stamped(
        self, batches: list[Batch], leader_epoch: int, append_time_ms: int | None
    ) -> Appended:
        next_offset = self._log.tip.end_offset
        buffers: list[Bytes] = []
        placed: list[PlacedBatch] = []
        size_bytes = 0
        for batch in batches:
            head = stamp(batch, next_offset, leader_epoch, append_time_ms)
            start = batch.position
            batch_bytes = LOG_OVERHEAD + batch.length
            buffers.append(head)
            buffers.append(batch.buffer[start + len(head) : start + batch_bytes])
            last_offset = next_offset + batch.last_offset_delta
            timestamp_ms = batch.max_timestamp if append_time_ms is None else append_time_ms
            placed.append(_new(PlacedBatch, (batch, next_offset, last_offset, timestamp_ms)))
            next_offset = last_offset + 1
            size_bytes += batch_bytes
        return self._write(buffers, size_bytes, placed, leader_epoch, append_time_ms)

    def _write(
        self,
        buffers: Sequence[Bytes],
        size_bytes: int,
        placed: Sequence[PlacedBatch],
        leader_epoch: int | None = None,
        append_time_ms: int | None = None,
    ) -> Appended:
        """Write the bytes first, then change what memory says of them, and the log end last."""
        log = self._log
        storage = log.storage
        if storage.failure is not None:
            storage.check_online()
        if log.closed:
            log.check_open()
        last = placed[-1]
        try:
            segment = log.tip.segment
            if segment.should_roll(
                log.config, size_bytes, last.last_offset, last.max_timestamp_ms
            ) and self._roller.may_roll(size_bytes, last.last_offset):
                segment = self._roller.start_segment(placed[0].base_offset, last.last_offset)
            # An epoch begins where the batch before ends, not at its own base offset: its first
            # records may be compacted away, and what others have there is of no older epoch.
            begin = log.tip.end_offset
            for item in placed:
                epoch = item.batch.leader_epoch if leader_epoch is None else leader_epoch
                if epoch >= 0:
                    log.epochs.assign(epoch, max(begin, log.log_start))
                begin = item.last_offset + 1
        except OSError as error:
            raise roll_failure(log, error) from error
        try:
            segment.write(buffers)
        except OSError as error:
            first = None if leader_epoch is None else LOG_OVERHEAD + placed[0].batch.length
            raise write_failure(log, segment, error, first_batch_bytes=first) from error
        try:
            position = segment.size_bytes
            interval_bytes = log.config.index_interval_bytes
            for item in placed:
                batch, base_offset, last_offset, timestamp_ms = item
                batch_bytes = LOG_OVERHEAD + batch.length
                segment.note(
                    base_offset, last_offset, timestamp_ms, position, batch_bytes, interval_bytes
                )
                if batch.producer_id >= 0:
                    remember_batch(log.producers, segment, item)
                position += batch_bytes
        except OSError as error:
            raise append_failure(log, error) from error
        segment.size_bytes = position
        log.tip = _new(Tip, (last.last_offset + 1, segment, position))
        return Appended(
            Offset(placed[0].base_offset),
            Offset(last.last_offset),
            NO_TIMESTAMP_MS if append_time_ms is None else append_time_ms,
            LogStartOffset(log.log_start),
            size_bytes=size_bytes,
        )
