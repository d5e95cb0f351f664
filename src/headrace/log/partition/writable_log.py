"""The part of a partition's log that takes batches."""

from collections.abc import Sequence
from errno import EDQUOT, ENOSPC
from struct import Struct

from crc32c import crc32c

from headrace.log.filesystem import Bytes
from headrace.log.partition.admission import admit, unchecked
from headrace.log.partition.appended import Appended
from headrace.log.partition.durable_log import DurableLog
from headrace.log.partition.log_state import Tip
from headrace.log.producer.producer_recall import recall_batches
from headrace.log.producer.producer_replay import remember_batch
from headrace.log.producer.producer_snapshot import encode_snapshot
from headrace.log.producer.producer_state import AppendOrigin, Duplicate
from headrace.log.segment.segment import PlacedBatch, Segment
from headrace.log.segment.segment_list import floor
from headrace.model.error import (
    DiskFull,
    InvalidArgument,
    OutOfOrderSequence,
    StorageError,
    UnexpectedAppendOffset,
)
from headrace.model.offset import (
    NO_TIMESTAMP_MS,
    LogStartOffset,
    Offset,
)
from headrace.records.batch import (
    ATTRIBUTES_AT,
    HEAD,
    HEADER_BYTES,
    LAST_CODEC,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    Batch,
    add_sequence,
    stamp,
)
from headrace.records.control import ControlType, build_marker

_INT_MAX = 2**31 - 1
_NO_ROOM = (ENOSPC, EDQUOT)
# A codec and no flag at all.
_PLAIN_ATTRIBUTES = frozenset(range(LAST_CODEC + 1))
# A head without its base offset, leader epoch and base timestamp.
_PLAIN = Struct(">8xi4xbIhi8xqqhii")
# The same of a batch that has its offset and epoch.
_COPIED = Struct(">qiibIhi8xqqhii")
# Makes a NamedTuple in half the time its own constructor takes.
_new = tuple.__new__


class WritableLog(DurableLog):
    """Checks, stamps and writes batches at the end of the log, and rolls segments.

    Invariant: what memory claims is in the file. The file may hold more after a failed write; the
    next one goes over it. Unsynced data lies in the last two segments only: rolling waits for the
    one before.

    Threads: one appends. Rolling may come from retention too, under the same lock.
    """

    # -- writing: the one appender thread ------------------------------------------------------

    def append(
        self,
        records: Bytes,
        leader_epoch: int,
        *,
        from_client: bool = True,
        strict_start: bool = False,
    ) -> Appended:
        """Check one or more whole batches, give them the next offsets, and write them.

        Nothing is copied: a new head of 16 bytes goes before the rest of each batch as it came.

        Args:
            from_client: False for batches the broker builds itself (group offsets, transaction
                state): their epoch is checked but not sequence, key, time or size.
            strict_start: a transaction version 2 producer that is not known here must begin at
                sequence 0 (KIP-890).

        Raises:
            CorruptBatch, UnsupportedBatch, BatchTooLarge, InvalidRecord, InvalidTimestamp: the
                batch cannot be taken.
            OutOfOrderSequence, InvalidProducerEpoch, InvalidTransactionState: its producer is
                behind, fenced or in another transaction.
            DiskFull, StorageError: it could not be written; nothing of it is in the log.
        """
        if from_client and type(records) is memoryview and records.format == "B":
            appended = self.append_plain(records, leader_epoch)
            if appended is not None:
                return appended
        now_ms = self._storage.clock.wall_ms()
        batches = admit(records, self.config, now_ms) if from_client else unchecked(records)
        if leader_epoch < 0:
            raise InvalidArgument(f"a leader appends with its epoch, not with {leader_epoch}")
        origin = AppendOrigin.CLIENT if from_client else AppendOrigin.COORDINATOR
        with self._lock:
            duplicate = None
            if len(batches) > 1 or batches[0].producer_id >= 0:
                duplicate = self._check_producers(batches, origin, strict_start)
            if duplicate is not None:
                return Appended(
                    base_offset=duplicate.base_offset,
                    last_offset=duplicate.last_offset,
                    log_append_time_ms=(
                        duplicate.timestamp_ms if self.config.log_append_time else NO_TIMESTAMP_MS
                    ),
                    log_start_offset=self.log_start_offset,
                    duplicate=True,
                )
            append_time_ms = now_ms if self.config.log_append_time else None
            return self._append_stamped(batches, leader_epoch, append_time_ms)

    def append_plain(
        self, records: memoryview, leader_epoch: int, *, alone: bool = False
    ) -> Appended | None:
        """The short way of a single batch into the active segment: without a producer id, or the
        next one of a producer that is known and has no transaction.

        None when it is anything else, or when anything about it is not as it should be: nothing
        has happened then, and the long way takes it or says what is wrong. A broker of small
        batches spends its time here, so there are no calls that can be saved. It must do what the
        long way does; `tests/property/log/test_plain_append.py` holds them together.

        Args:
            records: a flat view of bytes.
            alone: no other replica is in sync, so that the high watermark is the log end: it moves
                here, at once, instead of with `set_high_watermark`.
        """
        config = self.config
        size_bytes = len(records)
        if not HEADER_BYTES <= size_bytes <= config.max_message_bytes or not config.takes_as_sent:
            return None
        (
            length,
            magic,
            crc,
            attributes,
            delta,
            timestamp_ms,
            producer_id,
            producer_epoch,
            sequence,
            count,
        ) = _PLAIN.unpack_from(records)
        if (
            length + LOG_OVERHEAD != size_bytes
            or magic != MAGIC
            or attributes not in _PLAIN_ATTRIBUTES
            or not 0 <= delta == count - 1
            or timestamp_ms < 0
            or not self._is_past(timestamp_ms - config.message_timestamp_after_max_ms)
            or crc32c(records[ATTRIBUTES_AT:]) != crc
        ):
            return None
        producer = (producer_id, producer_epoch, sequence)
        return self._write_next(records, leader_epoch, None, delta, timestamp_ms, producer, alone)

    def _write_next(
        self,
        records: memoryview,
        epoch: int,
        copied_from: int | None,
        delta: int,
        timestamp_ms: int,
        numbered: tuple[int, int, int],
        alone: bool = False,
    ) -> Appended | None:
        """Write one sound batch at the end of the active segment; None where that is not all.

        Args:
            copied_from: the offset the batch has; None gives it the next one, and the epoch.
            numbered: producer id, its epoch and the first sequence number.
        """
        config = self.config
        size_bytes = len(records)
        with self._lock:
            offset, segment, position = self._tip
            last_offset = offset + delta
            producer = None
            if numbered[0] >= 0:
                producer = self._producers.expecting(*numbered)
                if producer is None:
                    return None
            if (
                self._storage.failure is not None
                or self._closed
                or not 0 <= epoch == self.epochs.known_epoch
                or position == 0
                or (copied_from is not None and copied_from != offset)
            ):
                return None
            try:
                if segment.should_roll(config, size_bytes, last_offset, timestamp_ms):
                    return None
            except OSError:
                return None
            try:
                if copied_from is None:
                    head = HEAD.pack(offset, size_bytes - LOG_OVERHEAD, epoch)
                    segment.write((head, records[MAGIC_AT:]))
                else:
                    segment.write((records,))
            except OSError as error:
                raise self._unwritten(segment, error) from error
            interval_bytes = config.index_interval_bytes
            try:
                segment.note(
                    offset, last_offset, timestamp_ms, position, size_bytes, interval_bytes
                )
            except OSError as error:
                raise self._broken(error) from error
            if producer is not None:
                sequence = numbered[2]
                producer.take(
                    sequence, add_sequence(sequence, delta), offset, last_offset, timestamp_ms
                )
            segment.size_bytes = position = position + size_bytes
            end = last_offset + 1
            self._tip = _new(Tip, (end, segment, position))
            if alone:
                self._high_watermark = end
                self._producers.advance(end)
            log_start = self._log_start
        return _new(Appended, (offset, last_offset, NO_TIMESTAMP_MS, log_start, False, size_bytes))

    def _is_past(self, time_ms: int) -> bool:
        """Whether the wall clock has shown this time; it is asked only when that is not known."""
        if time_ms > self._seen_ms:
            self._seen_ms = self._storage.clock.wall_ms()
        return time_ms <= self._seen_ms

    def append_marker(
        self,
        producer_id: int,
        producer_epoch: int,
        leader_epoch: int,
        *,
        commit: bool,
        coordinator_epoch: int,
        transaction_version: int = 0,
    ) -> Appended:
        """End a producer's transaction in this partition with a COMMIT or an ABORT marker.

        Raises:
            InvalidProducerEpoch, CoordinatorFenced: from a coordinator that is behind.
        """
        now_ms = self._storage.clock.wall_ms()
        marker = build_marker(
            ControlType.COMMIT if commit else ControlType.ABORT,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=now_ms,
        )
        with self._lock:
            self._producers.check_marker(
                producer_id,
                producer_epoch,
                coordinator_epoch,
                transaction_version=transaction_version,
            )
            return self._append_stamped([Batch(marker)], leader_epoch, None)

    def append_as_follower(self, records: Bytes) -> Appended:
        """Write batches fetched from the leader, with the offsets and epochs they have.

        A last batch that the fetch cut off is left out.

        Raises:
            UnexpectedAppendOffset: a batch lies below the log end: truncate first.
        """
        if type(records) is memoryview and records.format == "B":
            appended = self._copy_plain(records)
            if appended is not None:
                return appended
        batches = unchecked(records, whole=False)
        with self._lock:
            next_offset = self._tip.end_offset
            placed: list[PlacedBatch] = []
            for batch in batches:
                if batch.base_offset < next_offset:
                    raise UnexpectedAppendOffset(
                        f"{self.partition} ends at {next_offset}, so a batch from the leader "
                        f"cannot start at {batch.base_offset}"
                    )
                last_offset = batch.last_offset
                placed.append(
                    PlacedBatch(batch, batch.base_offset, last_offset, batch.max_timestamp)
                )
                next_offset = last_offset + 1
            if not placed:
                return Appended(log_start_offset=self.log_start_offset)
            view = batches[0].buffer[batches[0].position : batches[-1].end]
            return self._write([view], len(view), placed)

    def _copy_plain(self, records: memoryview) -> Appended | None:
        """`append_plain` at a follower: the batch that comes next, with its offset and epoch."""
        size_bytes = len(records)
        if size_bytes < HEADER_BYTES:
            return None
        (
            base_offset,
            length,
            epoch,
            magic,
            crc,
            attributes,
            delta,
            timestamp_ms,
            producer_id,
            producer_epoch,
            sequence,
            count,
        ) = _COPIED.unpack_from(records)
        if (
            length + LOG_OVERHEAD != size_bytes
            or magic != MAGIC
            or attributes not in _PLAIN_ATTRIBUTES
            or not 0 <= delta == count - 1
            or timestamp_ms < 0
            or crc32c(records[ATTRIBUTES_AT:]) != crc
        ):
            return None
        producer = (producer_id, producer_epoch, sequence)
        return self._write_next(records, epoch, base_offset, delta, timestamp_ms, producer)

    def _check_producers(
        self, batches: list[Batch], origin: AppendOrigin, strict_start: bool
    ) -> Duplicate | None:
        """Each batch must follow what its producer has here, or in this very append."""
        pending: dict[int, tuple[int, int]] = {}
        for batch in batches:
            producer_id = batch.producer_id
            if producer_id < 0:
                continue
            before = pending.get(producer_id)
            if before is None:
                duplicate = self._check_producer(batch, origin, strict_start)
                if duplicate is not None:
                    return duplicate
            elif before != (batch.producer_epoch, batch.base_sequence):
                raise OutOfOrderSequence(
                    f"producer {producer_id} sends epoch {batch.producer_epoch} and sequence "
                    f"{batch.base_sequence} in one request after {before}"
                )
            if len(batches) > 1:
                pending[producer_id] = (batch.producer_epoch, add_sequence(batch.last_sequence, 1))
        return None

    def _check_producer(
        self, batch: Batch, origin: AppendOrigin, strict_start: bool
    ) -> Duplicate | None:
        def check() -> Duplicate | None:
            return self._producers.check(
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                batch.last_sequence,
                transactional=batch.is_transactional,
                origin=origin,
                strict_start=strict_start,
            )

        try:
            return check()
        except OutOfOrderSequence:
            if not self._recall_batches(batch):
                raise
            return check()

    def _recall_batches(self, batch: Batch) -> bool:
        """Whether more is known now of what its producer sent before a restart."""
        entry = self._producers.forgotten(batch.producer_id, batch.producer_epoch)
        if entry is None:
            return False
        segments = self._segments.all
        segment = segments[floor(segments, entry.batches[0].first_offset)]
        with self._storage.io(f"look for batches of a producer in {self.partition}"):
            before = recall_batches(segment, entry)
        self._producers.recall(entry, before)
        return bool(before)

    def _append_stamped(
        self, batches: list[Batch], leader_epoch: int, append_time_ms: int | None
    ) -> Appended:
        next_offset = self._tip.end_offset
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
        """The bytes first, then what memory says of them, and the new end last of all."""
        storage = self._storage
        if storage.failure is not None:
            storage.check_online()
        if self._closed:
            self._check_open()
        last = placed[-1]
        try:
            segment = self._tip.segment
            if segment.should_roll(
                self.config, size_bytes, last.last_offset, last.max_timestamp_ms
            ):
                segment = self._roll(placed[0].base_offset, last.last_offset)
            for item in placed:
                epoch = item.batch.leader_epoch if leader_epoch is None else leader_epoch
                if epoch >= 0:
                    self.epochs.assign(epoch, item.base_offset)
            try:
                segment.write(buffers)
            except OSError as error:
                raise self._unwritten(segment, error) from error
            position = segment.size_bytes
            interval_bytes = self.config.index_interval_bytes
            for item in placed:
                batch, base_offset, last_offset, timestamp_ms = item
                batch_bytes = LOG_OVERHEAD + batch.length
                segment.note(
                    base_offset, last_offset, timestamp_ms, position, batch_bytes, interval_bytes
                )
                if batch.producer_id >= 0:
                    remember_batch(self._producers, segment, item)
                position += batch_bytes
        except OSError as error:
            raise self._broken(error) from error
        segment.size_bytes = position
        self._tip = _new(Tip, (last.last_offset + 1, segment, position))
        return Appended(
            Offset(placed[0].base_offset),
            Offset(last.last_offset),
            NO_TIMESTAMP_MS if append_time_ms is None else append_time_ms,
            LogStartOffset(self._log_start),
            size_bytes=size_bytes,
        )

    def _unwritten(self, segment: Segment, error: OSError) -> StorageError:
        """What to raise when the bytes of a batch could not be written."""
        if error.errno not in _NO_ROOM:
            return self._broken(error)
        try:
            # Cut the part that did get in, so that the file is as long as memory says.
            file = segment.file()
            file.truncate(segment.size_bytes)
            # Or a crash could bring back what this append is told is not there.
            file.sync()
        except OSError as worse:
            return self._broken(worse)
        return DiskFull(
            f"there is no room on the disk of {self.path} for an append: free some space"
        )

    def _broken(self, error: OSError) -> StorageError:
        """Memory and disk may differ now: the directory goes offline."""
        return self._storage.fail(
            StorageError(f"cannot append to {self.partition}: {error.strerror or error}")
        )

    def roll(self) -> Segment:
        """Close the active segment and start a new one at the log end; no-op when it is empty."""
        with self._structure, self._lock, self._storage.io(f"roll {self.partition}"):
            if self._tip.segment.size_bytes == 0:
                return self._tip.segment
            return self._roll(self._tip.end_offset, self._tip.end_offset)

    def _roll(self, base_offset: int, last_offset: int) -> Segment:
        """A new active segment, at the log end. Its files and the old one's tail are not synced.

        Only when a follower's offsets jump too far for an index does it start at the new batch.
        """
        end = self._tip.end_offset
        base = end if last_offset - end <= _INT_MAX else base_offset
        closing = self._tip.segment
        closing.close_indexes()
        self._sync_before(closing)
        self._owed_snapshots[base] = encode_snapshot(self._producers.entries())
        segment = self._segments.add(base)
        self._tip = Tip(end, segment, 0)
        self.on_roll()
        return segment

    def _sync_before(self, closing: Segment) -> None:
        """Wait for the disk if it is more than a segment behind: recovery relies on it."""
        segments = self._segments.all
        if len(segments) > 1 and segments[-1] is closing:
            previous = segments[-2]
            if previous.synced_bytes < previous.size_bytes:
                previous.sync()
                previous.synced_bytes = previous.size_bytes
            self._segments.sync_names()
