"""Where a read begins or ends, as a user wrote it; `offset_finder` finds the offsets.

The order of precedence is the connector's: a time for all, then times by partition, then offsets.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from headrace.model.error import ConfigError
from headrace.model.ids import TopicPartition
from headrace.spark.option_text import OptionText, wrong
from headrace.spark.source.offset_json import read_offsets

LATEST: Final = -1
"""Instead of an offset: the end of the log."""

EARLIEST: Final = -2
"""Instead of an offset: the start of the log."""

_LONG_MAX = 2**63 - 1

Side = Literal["starting", "ending"]


@dataclass(frozen=True, slots=True)
class EveryPartition:
    """All partitions at `EARLIEST` or `LATEST`."""

    offset: int


@dataclass(frozen=True, slots=True)
class EachPartition:
    """One offset per partition, which may be `EARLIEST` or `LATEST`."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class EveryTime:
    """The first record of each partition that is not older than this."""

    time_ms: int


@dataclass(frozen=True, slots=True)
class EachTime:
    """The first record that is not older than a time, with one time per partition."""

    times_ms: Mapping[TopicPartition, int]


OffsetLimit = EveryPartition | EachPartition | EveryTime | EachTime


def read_limit(options: OptionText, side: Side) -> OffsetLimit | None:
    """Return the limit that the options set, or None.

    Raises:
        ConfigError: a wrong time or offset.
    """
    time_ms = options.number(f"{side}Timestamp", 0, _LONG_MAX)
    if time_ms is not None:
        return EveryTime(time_ms)
    times = options.parsed(f"{side}OffsetsByTimestamp", read_offsets)
    if times is not None:
        return _checked_times(f"{side}OffsetsByTimestamp", times)
    name = f"{side}Offsets"
    text = options.get(name)
    if text is None:
        return None
    if text.lower() in ("earliest", "latest"):
        return EveryPartition(EARLIEST if text.lower() == "earliest" else LATEST)
    if not text.startswith("{"):
        raise wrong(name, text, 'write earliest, latest or JSON as in {"clicks":{"0":23,"1":-2}}')
    return _checked_offsets(name, read_offsets(name, text))


def depends_on_now(limit: OffsetLimit, *, latest_if_none_match: bool) -> bool:
    """Return whether the offsets of a limit change with time, even if nothing is deleted."""
    match limit:
        case EveryPartition(offset):
            return offset == LATEST
        case EachPartition(offsets):
            return LATEST in offsets.values()
        case _:
            return latest_if_none_match


def check_batch(starting: OffsetLimit | None, ending: OffsetLimit | None) -> None:
    """Check limits that make no sense for a batch: it would be empty, or never end.

    Raises:
        ConfigError: names the option.
    """
    for name, limit, forbidden, word in (
        ("startingOffsets", starting, LATEST, "latest"),
        ("endingOffsets", ending, EARLIEST, "earliest"),
    ):
        if limit == EveryPartition(forbidden):
            raise ConfigError(f"{name} cannot be {word} in a batch query")
        if isinstance(limit, EachPartition):
            for partition, offset in limit.offsets.items():
                if offset == forbidden:
                    raise ConfigError(
                        f"{name} cannot be {word} ({forbidden}) for {partition} in a batch query"
                    )
    if isinstance(starting, EachPartition) and isinstance(ending, EachPartition):
        _check_order("Offsets", starting.offsets, ending.offsets)
    if isinstance(starting, EachTime) and isinstance(ending, EachTime):
        _check_order("OffsetsByTimestamp", starting.times_ms, ending.times_ms)


def _check_order(
    kind: str, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> None:
    if starts.keys() != ends.keys():
        odd = ", ".join(map(str, sorted(starts.keys() ^ ends.keys())))
        raise ConfigError(
            f"starting{kind} and ending{kind} must name the same partitions: "
            f"only one of them has {odd}"
        )
    for partition, start in starts.items():
        if 0 <= ends[partition] < start:
            raise ConfigError(
                f"starting{kind} has {start} for {partition}, which lies past "
                f"the {ends[partition]} of ending{kind}"
            )


def _checked_times(name: str, times: Mapping[TopicPartition, int]) -> OffsetLimit:
    for partition, time_ms in times.items():
        if time_ms < 0:
            raise ConfigError(
                f"{name} has {time_ms} for {partition}: write milliseconds since 1970"
            )
    return EachTime(times)


def _checked_offsets(name: str, offsets: Mapping[TopicPartition, int]) -> OffsetLimit:
    for partition, offset in offsets.items():
        if offset < EARLIEST:
            raise ConfigError(
                f"{name} has {offset} for {partition}: "
                "write an offset, -1 for latest or -2 for earliest"
            )
    return EachPartition(offsets)
