"""Places in partitions as users write them, rpk's way.

start  end  47       the beginning, the end, an offset
+2     -3            two past the beginning, three before the end
@1700000000          a time: seconds or milliseconds since 1970,
@2026-07-01T12:00Z   an ISO date and time (local without a zone),
@-90m                or that long ago (s, m, h, d)
47:60  @-1h:end      from one place up to, and without, another
:end                 from the beginning up to where the end is now
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
# Above this a number of seconds would lie past the year 5138: then it is milliseconds.
_MOST_SECONDS = 10**11


class Origin(Enum):
    START = "start"
    END = "end"
    OFFSET = "offset"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Place:
    """A place in any partition. `number` counts from `origin`; for a time it is milliseconds."""

    origin: Origin
    number: int = 0


START = Place(Origin.START)
END = Place(Origin.END)


@dataclass(frozen=True, slots=True)
class Span:
    """From a place on; up to another one, or for ever."""

    first: Place
    past: Place | None = None


def parse_place(text: str, clock: Clock) -> Place:
    """Read one place.

    Raises:
        InvalidArgument: showing what can be written.
    """
    if text in ("start", "oldest"):
        return START
    if text in ("end", "newest"):
        return END
    if text.startswith("@"):
        return Place(Origin.TIME, parse_time(text[1:], clock))
    if _ISO.fullmatch(text):
        return Place(Origin.TIME, parse_time(text, clock))
    digits = text[1:] if text[:1] in "+-" else text
    if not (digits.isascii() and digits.isdigit()):
        raise InvalidArgument(
            f"{text!r} is no place in a topic: write start, end, an offset, +N from the start, "
            "-N from the end, or @TIME"
        )
    if text[0] == "+":
        return Place(Origin.START, int(digits))
    if text[0] == "-":
        return Place(Origin.END, -int(digits))
    return Place(Origin.OFFSET, int(digits))


def parse_span(text: str, clock: Clock) -> Span:
    """Read a place, or two with a colon between them.

    A time may have colons of its own, so the one that makes sense on both sides is taken.
    """
    for at in (at for at, letter in enumerate(text) if letter == ":"):
        first, past = text[:at], text[at + 1 :]
        try:
            return Span(
                parse_place(first, clock) if first else START,
                parse_place(past, clock) if past else None,
            )
        except InvalidArgument:
            continue
    return Span(parse_place(text, clock))


def parse_time(text: str, clock: Clock) -> int:
    """Milliseconds since 1970.

    Raises:
        InvalidArgument: showing what can be written.
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
    place: Place,
    partitions: Iterable[TopicPartition],
    *,
    read_committed: bool = False,
) -> dict[TopicPartition, int | ClientError]:
    """The offset of a place in each partition. A time without younger records is the end; what is
    counted from the start or the end never leaves the log."""
    wanted = list(partitions)
    if place.origin is Origin.OFFSET:
        return dict.fromkeys(wanted, place.number)
    time = {Origin.START: EARLIEST, Origin.END: LATEST}.get(place.origin, place.number)
    found = list_offsets(pool, dict.fromkeys(wanted, time), read_committed=read_committed)
    late = [each for each, outcome in found.items() if _is_none(outcome)]
    if late:
        found |= list_offsets(pool, dict.fromkeys(late, LATEST), read_committed=read_committed)
    shift = 0 if place.origin is Origin.TIME else place.number
    offsets = {
        partition: outcome if isinstance(outcome, ClientError) else outcome.offset + shift
        for partition, outcome in found.items()
    }
    return _bounded(pool, offsets, read_committed) if shift else offsets


def _bounded(
    pool: ConnectionPool, offsets: Mapping[TopicPartition, int | ClientError], read_committed: bool
) -> dict[TopicPartition, int | ClientError]:
    found = extents(pool, list(offsets), read_committed=read_committed)
    bounded: dict[TopicPartition, int | ClientError] = {}
    for partition, offset in offsets.items():
        extent = found[partition]
        if isinstance(offset, int) and isinstance(extent, LogExtent):
            offset = min(max(offset, extent.start), extent.end)
        bounded[partition] = offset
    return bounded


def _is_none(outcome: Any) -> bool:
    return isinstance(outcome, FoundOffset) and outcome.offset < 0
