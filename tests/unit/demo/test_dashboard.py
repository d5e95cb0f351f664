import io
from collections import Counter
from dataclasses import replace

import pytest
from rich.console import Console

from headrace.demo.dashboard import dashboard
from headrace.demo.demo_audit import AuditStatus
from headrace.demo.demo_status import Alert, DemoStatus, QueryStatus
from headrace.demo.trend import Trend

STATUS = DemoStatus(
    address="127.0.0.1:9092",
    running_seconds=10,
    written=5_000,
    window_seconds=20,
    flows=(QueryStatus("page-count", 4_800, 800), QueryStatus("landing", 0, None)),
)


def drawn(status: DemoStatus) -> str:
    console = Console(file=io.StringIO(), width=120)
    with console.capture() as capture:
        console.print(dashboard(status))
    return capture.get()


def test_before_the_first_window_it_says_what_it_waits_for() -> None:
    assert "The first window is not over yet" in drawn(STATUS)


def test_pages_stand_in_the_order_of_their_views() -> None:
    text = drawn(replace(STATUS, trend=Trend(Counter({"/rare": 3, "/": 90}))))

    assert text.index("/ ") < text.index("/rare")


def test_a_rising_page_is_marked() -> None:
    text = drawn(replace(STATUS, trend=Trend(Counter({"/": 90}), Counter({"/": 60}))))

    assert "▲ +50%" in text


def test_every_flow_says_how_far_it_is() -> None:
    text = drawn(STATUS)

    assert "4,800" in text
    assert "0.8 s" in text
    assert "starting" in text


def test_the_newest_alerts_are_shown() -> None:
    alerts = tuple(Alert(f"/page-{number}", number) for number in range(5))

    text = drawn(replace(STATUS, alerts=alerts))

    assert "/page-4 keeps failing" in text
    assert "/page-1 keeps failing" not in text


def test_countries_are_shown() -> None:
    assert "FR" in drawn(replace(STATUS, countries=Counter({"FR": 7})))


def test_a_bounded_run_says_how_long_it_goes_on() -> None:
    assert "12 s to go" in drawn(replace(STATUS, seconds_left=12.2))
    assert "Ctrl-C stops everything" in drawn(STATUS)


def test_the_audit_is_a_line() -> None:
    whole = drawn(replace(STATUS, audit=AuditStatus(views=12_345, tiers=4, percent=100.0)))
    short = drawn(replace(STATUS, audit=AuditStatus(views=12_345, tiers=4, percent=99.996)))

    assert "100 % of 12,345 views at 4 tiers" in whole
    assert "99.99 % of 12,345 views" in short


@pytest.mark.parametrize(("width", "height"), [(120, 50), (100, 30), (80, 24), (60, 24)])
def test_it_fits_the_terminal(width: int, height: int) -> None:
    pages = Counter({f"/products/item-{number}": 900 - number for number in range(12)})
    full = replace(
        STATUS,
        console="http://127.0.0.1:40999/",
        trend=Trend(pages, Counter({page: 450 for page in pages})),
        countries=Counter({each: 100 for each in ("DE", "FR", "GB", "IT", "ES")}),
        alerts=tuple(Alert("/checkout", number) for number in range(5)),
        audit=AuditStatus(views=12_345, tiers=4, percent=100.0),
        flows=tuple(QueryStatus(f"flow-{number}", 4_800, 800) for number in range(4)),
    )
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as capture:
        console.print(dashboard(full, width=width, height=height))
    lines = capture.get().splitlines()

    assert len(lines) < height
    for shown in ("900   ", "▲ +100%", "at 4 tiers", "0.8 s", "/checkout keeps failing"):
        assert any(shown in line for line in lines), shown
