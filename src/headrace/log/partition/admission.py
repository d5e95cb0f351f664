"""What may enter a log: the checks on a batch that a producer sent, before any state changes.

Checked for every batch: length, magic, CRC32C, counts, max.message.bytes, and the two bounds on
time. Only a compacted topic has its records opened, because only there a record without a key can
never be right.

The bounds on time look at the head: at the newest record (max timestamp) for the future and at the
first record (base timestamp) for the past. Kafka looks at each record; the difference shows only in
a batch whose records run backwards in time.
"""

from headrace.model.error import BatchTooLarge, CorruptBatch, InvalidRecord, InvalidTimestamp
from headrace.model.topic_config import LogConfig
from headrace.records.batch import Batch, Buffer, view_of
from headrace.records.compression import Codec
from headrace.records.recompress import recompressed

_NO_LIMIT = 2**63 - 1
_PRODUCERS_CHOICE = "producer"
# The largest uncompressed request (socket.request.max.bytes): a topic that stores its batches in
# another codec inflates none to more than that.
_MAX_INFLATED_BYTES = 100 * 1024 * 1024


def admit(records: Buffer, config: LogConfig, now_ms: int) -> list[Batch]:
    """Return the batches in `records`, each of them sound and allowed by the topic's configuration.

    Raises:
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
        if not config.log_append_time and (
            batch.max_timestamp > now_ms or config.message_timestamp_before_max_ms != _NO_LIMIT
        ):
            _check_time(batch, config, now_ms)
        batches.append(batch)
        position += batch_bytes
    if not batches:
        raise InvalidRecord("an append needs at least one batch, and there were no bytes")
    if config.compacted:
        _check_keys(batches)
    if config.compression_type != _PRODUCERS_CHOICE:
        return [_recompressed(batch, config) for batch in batches]
    return batches


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


def _check_time(batch: Batch, config: LogConfig, now_ms: int) -> None:
    if batch.max_timestamp > now_ms + config.message_timestamp_after_max_ms:
        raise InvalidTimestamp(
            f"a record's timestamp {batch.max_timestamp} lies more than "
            f"{config.message_timestamp_after_max_ms} ms (message.timestamp.after.max.ms) "
            f"after the broker's time {now_ms}"
        )
    before_ms = config.message_timestamp_before_max_ms
    if before_ms != _NO_LIMIT and 0 <= batch.base_timestamp < now_ms - before_ms:
        raise InvalidTimestamp(
            f"a record's timestamp {batch.base_timestamp} lies more than {before_ms} ms "
            f"(message.timestamp.before.max.ms) before the broker's time {now_ms}"
        )


def _recompressed(batch: Batch, config: LogConfig) -> Batch:
    """Return the batch in the topic's own codec, which must keep it below max.message.bytes too."""
    name = config.compression_type
    codec = Codec.NONE if name == "uncompressed" else Codec[name.upper()]
    levels = {
        Codec.GZIP: None if config.compression_gzip_level < 0 else config.compression_gzip_level,
        Codec.LZ4: config.compression_lz4_level,
        Codec.ZSTD: config.compression_zstd_level,
    }
    changed = recompressed(batch, codec, levels.get(codec), max_inflated_bytes=_MAX_INFLATED_BYTES)
    if changed.size_bytes > config.max_message_bytes:
        raise BatchTooLarge(
            f"a batch has {changed.size_bytes} bytes in the topic's codec ({name}), above "
            f"max.message.bytes ({config.max_message_bytes}): send smaller batches"
        )
    return changed


def _check_keys(batches: list[Batch]) -> None:
    # Late, because it imports numba and pyarrow: a broker without compacted user topics never
    # needs them.
    from headrace.records.decode import decode

    for batch in batches:
        keys = decode(batch.data, columns=("key",), verify_crc=False).columns.column("key")
        if keys.null_count:
            raise InvalidRecord(
                f"{keys.null_count} records have no key, and a compacted topic keeps the last "
                "value of each key: send keys, or take 'compact' out of cleanup.policy"
            )
