"""The result of an append."""

from typing import NamedTuple

from headrace.model.offset import NO_OFFSET, NO_TIMESTAMP_MS, LogStartOffset, Offset

_ZERO = LogStartOffset(0)


class Appended(NamedTuple):
    """Where the records went. A tuple, because every append builds one.

    Attributes:
        base_offset: of the first record; `NO_OFFSET` when there was none.
        last_offset: of the last record.
        log_append_time_ms: the broker's time in a LogAppendTime topic, otherwise -1.
        log_start_offset: of the log, as ProduceResponse carries it.
        duplicate: the batch was here already (an idempotent producer's retry). Nothing was
            written; the offsets are those of the first time.
        size_bytes: how many bytes the log grew by.
    """

    base_offset: Offset = NO_OFFSET
    last_offset: Offset = NO_OFFSET
    log_append_time_ms: int = NO_TIMESTAMP_MS
    log_start_offset: LogStartOffset = _ZERO
    duplicate: bool = False
    size_bytes: int = 0
