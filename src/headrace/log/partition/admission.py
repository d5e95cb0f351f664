"""What may enter a log: the checks on a batch that a producer sent, before any state changes.

Checked for every batch: length, magic, CRC32C, counts, max.message.bytes, the two bounds on time,
and that its bytes are the records it counts (`records.framing`). Where only some of the records are
wrong (no key in a compacted topic, a time out of bounds) the error names each (KIP-467).

A compressed batch is inflated, and its records are walked too: one that does not inflate would stop
every consumer at it (docs/decisions/0030).

Inflating and compressing take long: a batch of 3 KB may inflate to 100 MB. `must_open` says which
batches need that, so that a broker can call `admit` in a thread for them. Others wait for the same
thread, so `admit` gives up, if asked to, on those that would hold it for long.
"""

from collections.abc import Callable, Sequence
from typing import NoReturn

from headrace.model.error import (
    BatchTooLarge,
    ConfigError,
    CorruptBatch,
    InvalidRecord,
    InvalidTimestamp,
    TakesLong,
)
from headrace.model.topic_config import LogConfig
from headrace.records import framing
from headrace.records.batch import HEADER_BYTES, Batch, Buffer, view_of
from headrace.records.compression import Codec
from headrace.records.inflate_buffer import InflateBuffer
from headrace.records.recompress import recompressed

_NO_LIMIT = 2**63 - 1
_PRODUCERS_CHOICE = "producer"
# For an uncompressed batch there is nothing to do.
_UNCOMPRESSED = frozenset({_PRODUCERS_CHOICE, "uncompressed"})
# The largest uncompressed request (socket.request.max.bytes): a topic that stores its batches in
# another codec inflates none to more than that.
_MAX_INFLATED_BYTES = 100 * 1024 * 1024
# What a batch may inflate to where others wait: a millisecond's worth, or a hundredfold, which few
# batches reach that were not made for it. Counted, not guessed: what a batch says of it may be a
# lie.
_PROMPT_INFLATED_BYTES = 1024 * 1024
_PROMPT_RATIO = 100
_KEY_RULE = "it has no key, and the topic is compacted"
# A response names no more refused records than this. The rest of the batch is refused anyway.
_MAX_NAMED_RECORDS = 1000
_buffer = InflateBuffer()


CheckSchemas = Callable[[LogConfig, memoryview, int, bool], object]
"""Raises what is wrong with the schemas that sound records name: given the topic's configuration,
the records of one batch, inflated, which it may not keep, their number, and `patient`."""


def admit(
    records: Buffer,
    config: LogConfig,
    now_ms: int,
    *,
    patient: bool = True,
    check_schemas: CheckSchemas | None = None,
) -> list[Batch]:
    """Return the batches in `records`, each of them sound and allowed by the topic's configuration.

    Args:
        patient: no other batch waits for this thread: inflate whatever is allowed.
        check_schemas: called for the records of a topic that checks schemas.

    Raises:
        ConfigError: the topic checks schemas, and nothing here can.
        TakesLong: not `patient`, and a batch inflates to 1 MiB and a hundred times its size, or
            `check_schemas` would take long.
        CorruptBatch, UnsupportedBatch, InvalidRecord: from `Batch.validate`, and for bytes that
            are not whole batches.
        BatchTooLarge: above max.message.bytes.
        InvalidTimestamp: outside message.timestamp.before/after.max.ms.
    """
    view = view_of(records)
    batches: list[Batch] = []
    position = 0
    size = len(view)
    while position < size:
        batch = Batch(view, position)
        batch_bytes = batch.length + 12
        if batch_bytes > config.max_message_bytes:
            raise BatchTooLarge(
                f"a batch of {batch_bytes} bytes is above max.message.bytes "
                f"({config.max_message_bytes}): send smaller batches or raise the topic's limit"
            )
        batch.validate(from_client=True)
        rows = _check_records(batch, config, now_ms, patient)
        if config.checks_schemas:
            if check_schemas is None:
                raise ConfigError("the topic checks schemas, which only its broker can")
            check_schemas(config, rows, batch.record_count, patient)
        position += batch_bytes
        if config.compression_type not in (_PRODUCERS_CHOICE, _name(batch.compression)):
            batch = _recompressed(batch, config, rows)
        batches.append(batch)
    if not batches:
        raise InvalidRecord("an append needs at least one batch, and there were no bytes")
    return batches


def must_open(records: Buffer, config: LogConfig) -> bool:
    """Return whether `admit` would inflate, compress, or check schemas: what may take long."""
    view = view_of(records)
    if len(view) < HEADER_BYTES:
        return False
    batch = Batch(view)
    return (
        bool(batch.compression)
        or config.checks_schemas
        or config.compression_type not in _UNCOMPRESSED
    )


def unchecked(records: Buffer, *, whole: bool = True) -> list[Batch]:
    """Return the batches of this broker itself or of the leader, checked only for their CRC.

    Args:
        whole: a cut-off last batch is an error; a follower's fetch may end in one, which is left.
    """
    view = view_of(records)
    batches: list[Batch] = []
    position = 0
    size = len(view)
    while position < size:
        if size - position < 61 or Batch(view, position).end > size:
            if whole:
                raise CorruptBatch(f"the batch at byte {position} is cut off")
            break
        batch = Batch(view, position)
        batch.validate()
        batches.append(batch)
        position = batch.end
    return batches


def _bounds(config: LogConfig, now_ms: int) -> tuple[int, int]:
    """Return the oldest and the newest time a record may have."""
    if config.log_append_time:
        return -_NO_LIMIT, _NO_LIMIT
    before_ms, after_ms = (
        config.message_timestamp_before_max_ms,
        config.message_timestamp_after_max_ms,
    )
    return (
        -_NO_LIMIT if before_ms == _NO_LIMIT else now_ms - before_ms,
        min(now_ms + after_ms, _NO_LIMIT),
    )


def _takes_any_past(config: LogConfig) -> bool:
    return config.log_append_time or config.message_timestamp_before_max_ms == _NO_LIMIT


def _out_of_time(batch: Batch, config: LogConfig, now_ms: int) -> bool:
    """Return whether the head alone says that a record is too old or too new."""
    oldest_ms, newest_ms = _bounds(config, now_ms)
    return batch.max_timestamp > newest_ms or 0 <= batch.base_timestamp < oldest_ms


def _check_records(batch: Batch, config: LogConfig, now_ms: int, patient: bool) -> memoryview:
    """Check the records of a batch; return them, inflated.

    Raises:
        BatchTooLarge, TakesLong: it inflates to too much.
        InvalidRecord, InvalidTimestamp: naming the records.
    """
    untimely = _out_of_time(batch, config, now_ms)
    rows = batch.records
    if batch.compression:
        if not framing.can_hold(batch):
            raise InvalidRecord(
                f"a batch counts {batch.record_count} records, and {len(rows)} bytes of "
                f"{Codec(batch.compression).name.lower()} cannot hold them"
            )
        rows = _inflated(batch, patient)
        framing.load_kernel_for(len(rows))
    elif (
        not config.compacted
        and not untimely
        and _takes_any_past(config)
        and framing.is_sound(batch.data)
    ):
        # Most batches: each record is at most as new as the head says, and that is in time.
        return rows
    oldest_ms, newest_ms = _bounds(config, now_ms)
    problem, record, marks = framing.inspect(
        rows,
        batch.record_count,
        batch.base_timestamp,
        needs_key=config.compacted,
        oldest_ms=oldest_ms,
        newest_ms=newest_ms,
    )
    if problem is not None:
        raise InvalidRecord(
            f"record {record} of a batch of {batch.record_count} is no record: {problem}",
            [(record, problem)],
        )
    if marks:
        _refuse(marks, config, now_ms)
    if untimely:
        raise InvalidTimestamp(
            f"a batch says that its records reach from {batch.base_timestamp} to "
            f"{batch.max_timestamp}, outside of {_time_rule(config, now_ms)}"
        )
    return rows


def _inflated(batch: Batch, patient: bool) -> memoryview:
    rows = batch.records
    prompt_bytes = max(_PROMPT_INFLATED_BYTES, _PROMPT_RATIO * len(rows))
    most_bytes = _MAX_INFLATED_BYTES if patient else min(prompt_bytes, _MAX_INFLATED_BYTES)
    try:
        return _buffer.inflate(Codec(batch.compression), rows, most_bytes)
    except BatchTooLarge as error:
        if most_bytes < _MAX_INFLATED_BYTES:
            raise TakesLong(str(error)) from error
        raise
    except CorruptBatch as error:
        # Its CRC is right: it was sent like this, and sending it again does not help.
        raise InvalidRecord(str(error)) from error


def _refuse(marks: Sequence[tuple[int, int]], config: LogConfig, now_ms: int) -> NoReturn:
    """Raise the error of a batch of which some records are refused, and name them."""
    time_rule = f"its timestamp lies outside of {_time_rule(config, now_ms)}"
    reasons = {framing.NO_KEY: _KEY_RULE, framing.BAD_TIME: time_rule}
    named = [(record, reasons[mark]) for record, mark in marks[:_MAX_NAMED_RECORDS]]
    untimely = sum(mark == framing.BAD_TIME for _, mark in marks)
    if untimely:
        raise InvalidTimestamp(
            f"{untimely} records have a timestamp outside of {_time_rule(config, now_ms)}", named
        )
    raise InvalidRecord(
        f"{len(marks)} records have no key, and a compacted topic keeps the last value of each "
        "key: send keys, or take 'compact' out of cleanup.policy",
        named,
    )


def _time_rule(config: LogConfig, now_ms: int) -> str:
    return (
        f"message.timestamp.before.max.ms ({config.message_timestamp_before_max_ms}) and "
        f"message.timestamp.after.max.ms ({config.message_timestamp_after_max_ms}) "
        f"around the broker's time {now_ms}"
    )


def _name(codec: int) -> str:
    """Return compression.type's word for a codec."""
    return "uncompressed" if codec == Codec.NONE else Codec(codec).name.lower()


def _own_codec(config: LogConfig) -> Codec:
    name = config.compression_type
    return Codec.NONE if name == "uncompressed" else Codec[name.upper()]


def _recompressed(batch: Batch, config: LogConfig, rows: memoryview) -> Batch:
    """Return the batch in the topic's own codec, which must keep it below max.message.bytes too.

    Args:
        rows: its records, inflated.
    """
    codec = _own_codec(config)
    levels = {
        Codec.GZIP: None if config.compression_gzip_level < 0 else config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    return recompressed(
        batch,
        codec,
        levels.get(codec),
        max_inflated_bytes=_MAX_INFLATED_BYTES,
        max_bytes=config.max_message_bytes,
        rows=rows,
    )
