"""Places in a topic, as users write them."""

import pytest

from headrace.cli.record.offset_spec import END, START, Origin, Place, Span, parse_place, parse_span
from headrace.model.clock import ManualClock
from headrace.model.error import InvalidArgument

CLOCK = ManualClock(1_700_000_000_000)


def at(timestamp_ms: int) -> Place:
    return Place(Origin.TIME, timestamp_ms)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start", START),
        ("end", END),
        ("47", Place(Origin.OFFSET, 47)),
        ("+2", Place(Origin.START, 2)),
        ("-3", Place(Origin.END, -3)),
        ("@1700000000", at(1_700_000_000_000)),
        ("@1700000000123", at(1_700_000_000_123)),
        ("@2023-11-14T22:13:20Z", at(1_700_000_000_000)),
        ("2023-11-14T22:13:20+00:00", at(1_700_000_000_000)),
        ("@-90m", at(1_700_000_000_000 - 90 * 60_000)),
        ("@-2d", at(1_700_000_000_000 - 2 * 86_400_000)),
    ],
)
def test_a_place_is_read(text: str, expected: Place) -> None:
    assert parse_place(text, CLOCK) == expected


@pytest.mark.parametrize("text", ["", "middle", "4 7", "+", "--3", "1.5", "²"])
def test_what_is_no_place_is_shown_with_what_is(text: str) -> None:
    with pytest.raises(InvalidArgument, match="write start, end, an offset"):
        parse_place(text, CLOCK)


@pytest.mark.parametrize("text", ["@", "@soon", "@2023-13-01", "@-5y"])
def test_what_is_no_time_is_shown_with_what_is(text: str) -> None:
    with pytest.raises(InvalidArgument, match="is no time: write"):
        parse_place(text, CLOCK)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("end", Span(END)),
        (":end", Span(START, END)),
        ("47:", Span(Place(Origin.OFFSET, 47))),
        ("47:60", Span(Place(Origin.OFFSET, 47), Place(Origin.OFFSET, 60))),
        ("-3:end", Span(Place(Origin.END, -3), END)),
        ("@2023-11-14T22:13:20Z", Span(at(1_700_000_000_000))),
        ("@2023-11-14T22:13:20Z:end", Span(at(1_700_000_000_000), END)),
        (
            "@2023-11-14T22:13:20Z:@2023-11-14T22:13:21Z",
            Span(at(1_700_000_000_000), at(1_700_000_001_000)),
        ),
    ],
)
def test_a_span_is_read(text: str, expected: Span) -> None:
    assert parse_span(text, CLOCK) == expected


def test_a_span_that_cannot_be_read_is_shown() -> None:
    with pytest.raises(InvalidArgument, match="'1:2:3' is no place"):
        parse_span("1:2:3", CLOCK)
