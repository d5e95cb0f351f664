"""Paths with escapes for headers and times."""

import pytest

from headrace.ingest.format.path_escape import PathEscape


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("/l/%{host}/%{none}x", "/l/w1/x"),
        ("/l/%y%m%d/%H%M%S", "/l/121018/184757"),
        ("/l/%t-%s", "/l/1350586077123-1350586077"),
        ("/l/%e/%k/%n/%j", "/l/18/18/10/292"),
        ("100%%", "100%"),
        ("/l/%{evil}/x", "/l/_/_/etc/x"),
    ],
)
def test_escapes(pattern: str, expected: str) -> None:
    from zoneinfo import ZoneInfo

    headers = {"host": "w1", "timestamp": "1350586077123", "evil": "../../etc"}
    assert PathEscape(pattern, zone=ZoneInfo("UTC")).fill(headers) == expected


def test_times_can_be_rounded_down() -> None:
    from zoneinfo import ZoneInfo

    escape = PathEscape("%H%M%S", zone=ZoneInfo("UTC"), round_value=10, round_unit="minute")
    assert escape.fill({"timestamp": "1350586077123"}) == "184000"
