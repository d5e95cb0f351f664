"""Offsets as users write them on the command line, in rpk's syntax.

start  end  47       the log start, the log end, an offset
+2     -3            two after the start, three before the end
@1700000000          a time: seconds or milliseconds since 1970,
@2026-07-01T12:00Z   an ISO date and time (local without a zone),
@-90m                or that long ago (s, m, h, d)
47:60  @-1h:end      from the first up to the second, which is left out
:end                 from the start up to the present end
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import (
    EARLIEST,
    LATEST,
    FoundOffset,
    LogExtent,
    extents,
    list_offsets,
)
from headrace.model.clock import Clock
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO = re.compile(r"-(\d+)(ms|s|m|h|d)")
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d.*)?")
# As seconds, a number above this would be past the year 5138: it is milliseconds.
_MOST_SECONDS = 10**11


class OffsetOrigin(Enum):
    """What the number of an `OffsetSpec` counts from."""

    START = "start"
    END = "end"
    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """An offset that each partition resolves for itself. `number` counts from `origin`; for a time
    it is milliseconds since 1970."""

    origin: OffsetOrigin
    number: int = 0


START = OffsetSpec(OffsetOrigin.START)
END = OffsetSpec(OffsetOrigin.END)


@dataclass(frozen=True, slots=True)
class OffsetRangeSpec:
    """From an offset on: up to another one, which is left out, or without end."""

    first: OffsetSpec
    past: OffsetSpec | None = None


def parse_offset_spec(text: str, clock: Clock) -> OffsetSpec:
    """Parse one offset.

    Raises:
        InvalidArgument: the text is none; the message shows what can be written.
    """
    if text in ("start", "oldest"):
        return START
    if text in ("end", "newest"):
        return END
    if text.startswith("@"):
        return OffsetSpec(OffsetOrigin.TIME, parse_time(text[1:], clock))
    if _ISO.fullmatch(text):
        return OffsetSpec(OffsetOrigin.TIME, parse_time(text, clock))
    digits = text[1:] if text[:1] in "+-" else text
    if not (digits.isascii() and digits.isdigit()):
        raise InvalidArgument(
            f"{text!r} is no offset: write start, end, a number, +N from the start, "
            "-N from the end, or @TIME"
        )
    if text[0] == "+":
        return OffsetSpec(OffsetOrigin.START, int(digits))
    if text[0] == "-":
        return OffsetSpec(OffsetOrigin.END, -int(digits))
    return OffsetSpec(OffsetOrigin.OFFSET, int(digits))


def parse_range_spec(text: str, clock: Clock) -> OffsetRangeSpec:
    """Parse an offset, or two with a colon between them.

    A time may contain colons itself: the first colon with an offset on both sides separates.
    """
    for at in (at for at, letter in enumerate(text) if letter == ":"):
        first, past = text[:at], text[at + 1 :]
        try:
            return OffsetRangeSpec(
                parse_offset_spec(first, clock) if first else START,
                parse_offset_spec(past, clock) if past else None,
            )
        except InvalidArgument:
            continue
    return OffsetRangeSpec(parse_offset_spec(text, clock))


def parse_time(text: str, clock: Clock) -> int:
    """Return a time as milliseconds since 1970.

    Raises:
        InvalidArgument: the text is none; the message shows what can be written.
    """
    if text.isascii() and text.isdigit():
        number = int(text)
        return number * 1000 if number < _MOST_SECONDS else number
    ago = _AGO.fullmatch(text)
    if ago:
        return clock.wall_ms() - int(ago[1]) * _UNITS_MS[ago[2]]
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise InvalidArgument(
            f"{text!r} is no time: write 2026-07-01T12:00:00Z, seconds or milliseconds since 1970, "
            "or -90m for that long ago"
        ) from None


def resolve(
    pool: ConnectionPool,
    spec: OffsetSpec,
    partitions: Iterable[TopicPartition],
    *,
    read_committed: bool = False,
) -> dict[TopicPartition, int | ClientError]:
    """Return the offset in each partition, or why it cannot be found.

    A time after the last record is the log end. An offset that counts from the start or the end
    stays within the log.
    """
    partitions = list(partitions)
    if spec.origin is OffsetOrigin.OFFSET:
        return dict.fromkeys(partitions, spec.number)
    time = {OffsetOrigin.START: EARLIEST, OffsetOrigin.END: LATEST}.get(spec.origin, spec.number)
    outcomes = list_offsets(pool, dict.fromkeys(partitions, time), read_committed=read_committed)
    late = [each for each, outcome in outcomes.items() if _is_none(outcome)]
    if late:
        outcomes |= list_offsets(pool, dict.fromkeys(late, LATEST), read_committed=read_committed)
    shift = 0 if spec.origin is OffsetOrigin.TIME else spec.number
    offsets = {
        partition: outcome if isinstance(outcome, ClientError) else outcome.offset + shift
        for partition, outcome in outcomes.items()
    }
    return _bounded(pool, offsets, read_committed) if shift else offsets


def _bounded(
    pool: ConnectionPool, offsets: Mapping[TopicPartition, int | ClientError], read_committed: bool
) -> dict[TopicPartition, int | ClientError]:
    logs = extents(pool, list(offsets), read_committed=read_committed)
    bounded: dict[TopicPartition, int | ClientError] = {}
    for partition, offset in offsets.items():
        extent = logs[partition]
        if isinstance(offset, int) and isinstance(extent, LogExtent):
            offset = min(max(offset, extent.start), extent.end)
        bounded[partition] = offset
    return bounded


def _is_none(outcome: Any) -> bool:
    return isinstance(outcome, FoundOffset) and outcome.offset < 0
