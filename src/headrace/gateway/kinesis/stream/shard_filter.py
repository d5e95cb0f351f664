"""Which shards ListShards shows: `ShardFilter`."""

from collections.abc import Callable
from typing import Any, Final

from headrace.gateway.kinesis.error import invalid_argument
from headrace.gateway.kinesis.stream.shard import Shard, shard_number
from headrace.gateway.kinesis.stream.stream_state import HOUR_MS, StreamState

_WITH_TIME: Final = ("AT_TIMESTAMP", "FROM_TIMESTAMP")


def kept_shards(stream: StreamState, now_ms: int) -> list[Shard]:
    """Return the shards that may still hold records: those not closed before the retention."""
    horizon_ms = now_ms - stream.retention_hours * HOUR_MS
    return [each for each in stream.shards if each.closed_ms is None or each.closed_ms > horizon_ms]


def filtered_shards(stream: StreamState, wish: dict[str, Any] | None, now_ms: int) -> list[Shard]:
    """Return the shards of a stream that a filter lets through, by number.

    Raises:
        ServiceError: the filter lacks its shard id or its time.
    """
    kept = sorted(kept_shards(stream, now_ms), key=lambda each: each.number)
    if wish is None:
        return kept
    passes = _test_of(wish, now_ms - stream.retention_hours * HOUR_MS)
    return [each for each in kept if passes(each)]


def _test_of(wish: dict[str, Any], horizon_ms: int) -> Callable[[Shard], bool]:
    kind = wish["Type"]
    if kind == "AFTER_SHARD_ID":
        number = shard_number(wish.get("ShardId", ""))
        if number is None:
            raise invalid_argument("ShardId must be provided when ShardFilter is AFTER_SHARD_ID.")
        return lambda each: each.number > number
    if kind in _WITH_TIME and "Timestamp" not in wish:
        raise invalid_argument(f"Timestamp must be provided when ShardFilter is {kind}.")
    time_ms = max(horizon_ms, wish["Timestamp"].ms) if kind in _WITH_TIME else horizon_ms
    if kind == "AT_LATEST":
        return lambda each: each.is_open
    if kind in ("AT_TRIM_HORIZON", "AT_TIMESTAMP"):
        # A stream that is younger than the time: the shards that it began with.
        return lambda each: (
            (each.created_ms <= time_ms or not each.parents)
            and (each.closed_ms is None or each.closed_ms >= time_ms)
        )
    return lambda each: each.closed_ms is None or each.closed_ms >= time_ms
