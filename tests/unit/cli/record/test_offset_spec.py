"""Offsets of a topic, as users write them."""

import pytest

from headrace.cli.record.offset_spec import (
    END,
    START,
    OffsetOrigin,
    OffsetRangeSpec,
    OffsetSpec,
    parse_offset_spec,
    parse_range_spec,
)
from headrace.model.clock import ManualClock
from headrace.model.error import InvalidArgument

CLOCK = ManualClock(1_700_000_000_000)


def at(timestamp_ms: int) -> OffsetSpec:
    return OffsetSpec(OffsetOrigin.TIME, timestamp_ms)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", START),
        ("end", END),
        ("47", OffsetSpec(OffsetOrigin.OFFSET, 47)),
        ("+2", OffsetSpec(OffsetOrigin.START, 2)),
        ("-3", OffsetSpec(OffsetOrigin.END, -3)),
        ("@1700000000", at(1_700_000_000_000)),
        ("@1700000000123", at(1_700_000_000_123)),
        ("@2023-11-14T22:13:20Z", at(1_700_000_000_000)),
        ("2023-11-14T22:13:20+00:00", at(1_700_000_000_000)),
        ("@-90m", at(1_700_000_000_000 - 90 * 60_000)),
        ("@-2d", at(1_700_000_000_000 - 2 * 86_400_000)),
    ],
)
def test_an_offset_is_parsed(text: str, expected: OffsetSpec) -> None:
    assert parse_offset_spec(text, CLOCK) == expected


@pytest.mark.parametrize("text", ["", "middle", "4 7", "+", "--3", "1.5", "²"])
def test_a_text_that_is_no_offset_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="write start, end, a number"):
        parse_offset_spec(text, CLOCK)


@pytest.mark.parametrize("text", ["@", "@soon", "@2023-13-01", "@-5y"])
def test_a_text_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is no time: write"):
        parse_offset_spec(text, CLOCK)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("end", OffsetRangeSpec(END)),
        (":end", OffsetRangeSpec(START, END)),
        ("47:", OffsetRangeSpec(OffsetSpec(OffsetOrigin.OFFSET, 47))),
        (
            "47:60",
            OffsetRangeSpec(
                OffsetSpec(OffsetOrigin.OFFSET, 47), OffsetSpec(OffsetOrigin.OFFSET, 60)
            ),
        ),
        ("-3:end", OffsetRangeSpec(OffsetSpec(OffsetOrigin.END, -3), END)),
        ("@2023-11-14T22:13:20Z", OffsetRangeSpec(at(1_700_000_000_000))),
        ("@2023-11-14T22:13:20Z:end", OffsetRangeSpec(at(1_700_000_000_000), END)),
        (
            "@2023-11-14T22:13:20Z:@2023-11-14T22:13:21Z",
            OffsetRangeSpec(at(1_700_000_000_000), at(1_700_000_001_000)),
        ),
    ],
)
def test_a_range_is_parsed(text: str, expected: OffsetRangeSpec) -> None:
    assert parse_range_spec(text, CLOCK) == expected


def test_a_text_that_is_no_range_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="'1:2:3' is no offset"):
        parse_range_spec("1:2:3", CLOCK)
