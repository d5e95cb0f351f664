"""Resolves ranges that name times or edges of the log to offsets."""

from collections.abc import Mapping
from typing import NamedTuple

from headrace.client.error import BrokerError, ClientError, PositionOutOfRange
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import (
    EARLIEST,
    LATEST,
    FoundOffset,
    LogExtent,
    extents,
    list_offsets,
)
from headrace.client.read.read_range import Bound, LogEdge, ReadRange, milliseconds
from headrace.model.ids import TopicPartition

NOT_FOUND = -1


class ResolvedRange(NamedTuple):
    """The offsets of a `ReadRange`: from `start` to before `end`; None when there is no end."""

    start: int
    end: int | None


def resolve_ranges(
    pool: ConnectionPool,
    ranges: Mapping[TopicPartition, ReadRange],
    *,
    follow: bool = False,
    read_committed: bool = False,
) -> dict[TopicPartition, ResolvedRange]:
    """Ask the leaders for the offset of every bound that is a time or an edge of the log.

    Args:
        follow: leave a range without an end open, instead of ending it where the log ends now.
        read_committed: the log ends at the last stable offset.

    Raises:
        ClientError: names the partition whose leader gave no offset.
        PositionOutOfRange: a range without an end starts past the end of the log.
    """
    ends: dict[TopicPartition, Bound | None] = {
        partition: LogEdge.LATEST if each.end is None and not follow else each.end
        for partition, each in ranges.items()
    }
    starts = {partition: each.start for partition, each in ranges.items()}
    found_starts = _look_up(pool, starts, read_committed)
    found_ends = _look_up(pool, ends, read_committed)
    found = {}
    for partition, unresolved in ranges.items():
        start, end = found_starts[partition], found_ends[partition]
        assert start is not None
        if end is not None and end < start:
            if isinstance(unresolved.start, int):
                _check_start(pool, partition, start)
            end = start
        found[partition] = ResolvedRange(start, end)
    return found


def _check_start(pool: ConnectionPool, partition: TopicPartition, start: int) -> None:
    """Refuse a start past the log's end. Past the last stable offset it is allowed."""
    log = extents(pool, [partition])[partition]
    if isinstance(log, LogExtent) and start > log.end:
        raise PositionOutOfRange(partition, start, log.start, log.end)


def _look_up(
    pool: ConnectionPool, bounds: Mapping[TopicPartition, Bound | None], read_committed: bool
) -> dict[TopicPartition, int | None]:
    found: dict[TopicPartition, int | None] = {}
    times: dict[TopicPartition, int] = {}
    for partition, bound in bounds.items():
        if bound is None or isinstance(bound, int):
            found[partition] = bound
        elif isinstance(bound, LogEdge):
            times[partition] = EARLIEST if bound is LogEdge.EARLIEST else LATEST
        else:
            times[partition] = max(milliseconds(bound), 0)
    answers = _ask(pool, times, read_committed)
    too_young = [each for each, offset in answers.items() if offset == NOT_FOUND]
    return {**found, **answers, **_ask(pool, dict.fromkeys(too_young, LATEST), read_committed)}


def _ask(
    pool: ConnectionPool, times: Mapping[TopicPartition, int], read_committed: bool
) -> dict[TopicPartition, int]:
    offsets: dict[TopicPartition, int] = {}
    if not times:
        return offsets
    for partition, answer in list_offsets(pool, times, read_committed=read_committed).items():
        if isinstance(answer, FoundOffset):
            offsets[partition] = answer.offset
        elif isinstance(answer, BrokerError):
            raise BrokerError(answer.code, f"cannot read {partition}: {answer}")
        else:
            raise ClientError(f"cannot read {partition}: {answer}") from answer
    return offsets
