"""The fast path of an append: one batch that goes to the end of the active segment as it came.

A broker of small batches spends its time here, so every avoidable call is inlined. It must do
what the slow path (`Appender`) does; `tests/property/log/partition/test_plain_append.py` compares
the two byte for byte.
"""

from struct import Struct

from crc32c import crc32c

from headrace.log.partition.append_failure import append_failure, write_failure
from headrace.log.partition.appended import Appended
from headrace.log.partition.log_state import LogState, Tip
from headrace.model.offset import NO_TIMESTAMP_MS
from headrace.records import framing
from headrace.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    HEAD,
    HEADER_BYTES,
    LAST_CODEC,
    LOG_OVERHEAD,
    MAGIC,
    MAGIC_AT,
    TRANSACTIONAL_BIT,
    add_sequence,
)

# Up to here it costs less to join a batch with its head than to write two buffers.
_JOINED_BYTES = 4 * 1024
# A codec and no flag at all, or that of a transaction alone.
_PLAIN_ATTRIBUTES = frozenset(range(LAST_CODEC + 1))
_TAKEN_ATTRIBUTES = _PLAIN_ATTRIBUTES | {each | TRANSACTIONAL_BIT for each in _PLAIN_ATTRIBUTES}
# A head without its base timestamp.
_unpack_fields = Struct(">qiibIhi8xqqhii").unpack_from
_pack_head = HEAD.pack
# Builds a NamedTuple in half the time its own constructor needs.
_new = tuple.__new__


class PlainAppend:
    """Appends a single batch without a producer id, or the next one of a producer that is known,
    in its open transaction if the batch is part of one: from a client, or copied from the leader.
    The first batch of a transaction, which opens it, takes the slow path.

    It declines everything else with None, also a batch that is not as it should be. Nothing has
    happened then, and the slow path appends the batch or says what is wrong with it.

    Threads: the one appender.
    """

    __slots__ = ("_epochs", "_lock", "_log", "_producers", "_seen_ms")

    def __init__(self, log: LogState) -> None:
        self._log = log
        self._lock = log.lock
        self._epochs = log.epochs
        self._producers = log.producers
        # What the wall clock showed when it was last read; it may have been set back since.
        self._seen_ms = 0

    def append(  # noqa: C901 - in one piece, because a call more shows in every small append
        self,
        records: bytes | memoryview,
        leader_epoch: int | None,
        *,
        alone: bool = False,
        joined: bool = False,
    ) -> Appended | None:
        """Write one batch at the log end; None when the slow path has to.

        Args:
            records: bytes, which for a small batch cost less, or a flat view of them.
            leader_epoch: given to the batch, with the next offset. None: a follower copies the
                batch with the offset and the epoch it has.
            alone: no other replica is in sync, so that the high watermark is the log end: it moves
                here, at once, instead of with `set_high_watermark`. Declined where flush.messages
                asks for a sync of each batch, which comes first.
            joined: the caller has made sure that a transactional batch may be in its transaction.
                Without it such a batch is declined.
        """
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
        ) = _unpack_fields(records)
        if (
            length + LOG_OVERHEAD != size_bytes
            or magic != MAGIC
            or attributes not in (_TAKEN_ATTRIBUTES if joined else _PLAIN_ATTRIBUTES)
            or not 0 <= delta == count - 1
            or timestamp_ms < 0
        ):
            return None
        if crc32c(records[ATTRIBUTES_AT:]) != crc:
            return None
        log = self._log
        config = log.config
        if leader_epoch is not None:
            epoch = leader_epoch
            past_ms = timestamp_ms - config.message_timestamp_after_max_ms
            if (
                size_bytes > config.max_message_bytes
                or not config.takes_as_sent
                or (alone and config.flush_messages == 1)
                or (past_ms > self._seen_ms and not self._is_past(past_ms))
                or not framing.is_sound(records)
                or (attributes & CODEC_MASK and not framing.inflates(memoryview(records)))
            ):
                return None
        with self._lock:
            offset, segment, position = log.tip
            last_offset = offset + delta
            producer = None
            if producer_id >= 0:
                producer = self._producers.expecting(
                    producer_id,
                    producer_epoch,
                    sequence,
                    transactional=attributes >= TRANSACTIONAL_BIT,
                )
                if producer is None:
                    return None
            elif attributes >= TRANSACTIONAL_BIT:
                return None
            if (
                log.storage.failure is not None
                or log.closed
                or not 0 <= epoch == self._epochs.known_epoch
                or position == 0
                or (leader_epoch is None and base_offset != offset)
            ):
                return None
            try:
                if segment.should_roll(config, size_bytes, last_offset, timestamp_ms):
                    return None
            except OSError:
                return None
            try:
                if leader_epoch is None:
                    segment.write((records,))
                elif size_bytes <= _JOINED_BYTES:
                    segment.write((_pack_head(offset, length, epoch) + records[MAGIC_AT:],))
                else:
                    segment.write((_pack_head(offset, length, epoch), records[MAGIC_AT:]))
            except OSError as error:
                raise write_failure(log, segment, error, first_batch_bytes=size_bytes) from error
            try:
                segment.note(
                    offset,
                    last_offset,
                    timestamp_ms,
                    position,
                    size_bytes,
                    config.index_interval_bytes,
                )
            except OSError as error:
                raise append_failure(log, error) from error
            if producer is not None:
                producer.remember(
                    sequence, add_sequence(sequence, delta), offset, last_offset, timestamp_ms
                )
            segment.size_bytes = position = position + size_bytes
            end = last_offset + 1
            log.tip = _new(Tip, (end, segment, position))
            if alone:
                log.high_watermark = end
                self._producers.advance(end)
            log_start = log.log_start
        return _new(Appended, (offset, last_offset, NO_TIMESTAMP_MS, log_start, False, size_bytes))

    def _is_past(self, time_ms: int) -> bool:
        """Return whether a time has passed; reads the wall clock."""
        self._seen_ms = self._log.storage.clock.wall_ms()
        return time_ms <= self._seen_ms
