"""Ranges with edges and times in them, turned into offsets."""

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
from headrace.client.read.read_range import Bound, Offset, ReadRange, milliseconds
from headrace.model.ids import TopicPartition

NOT_FOUND = -1


class ResolvedRange(NamedTuple):
    """Offsets to read: from `start` up to, and without, `end`; None when there is no end."""

    start: int
    end: int | None


def resolve_ranges(
    pool: ConnectionPool,
    ranges: Mapping[TopicPartition, ReadRange],
    *,
    follow: bool = False,
    read_committed: bool = False,
) -> dict[TopicPartition, ResolvedRange]:
    """Ask the leaders about every bound that is no offset yet; offsets are not looked at.

    Args:
        follow: a range without an end has none, instead of ending where the log ends now.
        read_committed: let the log end at the last stable offset.

    Raises:
        ClientError: naming the partition that cannot be asked about.
        PositionOutOfRange: a start that lies past the log's end, in a range up to that end.
    """
    ends: dict[TopicPartition, Bound | None] = {
        partition: Offset.LATEST if each.end is None and not follow else each.end
        for partition, each in ranges.items()
    }
    starts = {partition: each.start for partition, each in ranges.items()}
    found_starts = _look_up(pool, starts, read_committed)
    found_ends = _look_up(pool, ends, read_committed)
    found = {}
    for partition, wanted in ranges.items():
        start, end = found_starts[partition], found_ends[partition]
        assert start is not None
        if end is not None and end < start:
            if isinstance(wanted.start, int):
                _check_start(pool, partition, start)
            end = start
        found[partition] = ResolvedRange(start, end)
    return found


def _check_start(pool: ConnectionPool, partition: TopicPartition, start: int) -> None:
    """A start behind the end is fine behind an open transaction, but not behind the log."""
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
        elif isinstance(bound, Offset):
            times[partition] = EARLIEST if bound is Offset.EARLIEST else LATEST
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
