"""Numbers over time."""

from headrace.console.status.series_set import SeriesSet


def test_a_rate_is_growth_per_second() -> None:
    series: SeriesSet[str] = SeriesSet()
    for number in range(4):
        series.add(number * 2000, {"clicks": number * 10})
    assert series.rate("clicks") == 5.0
    assert series.rates("clicks") == ([2000, 4000, 6000], [5.0, 5.0, 5.0])


def test_a_counter_that_goes_back_stands_still() -> None:
    series: SeriesSet[str] = SeriesSet()
    series.add(0, {"clicks": 100})
    series.add(1000, {"clicks": 5})
    assert series.rates("clicks") == ([1000], [0])


def test_what_comes_later_has_a_shorter_past() -> None:
    series: SeriesSet[str] = SeriesSet()
    series.add(0, {"old": 1})
    series.add(1000, {"old": 2, "new": 7})
    assert series.values("new") == ([1000], [7])


def test_what_is_gone_is_forgotten() -> None:
    series: SeriesSet[str] = SeriesSet()
    series.add(0, {"gone": 1})
    series.add(1000, {})
    assert series.values("gone") == ([], [])
    assert series.rate("gone") == 0.0


def test_only_the_last_points_are_kept() -> None:
    series: SeriesSet[str] = SeriesSet(points=3)
    for number in range(5):
        series.add(number, {"clicks": number})
    assert series.values("clicks") == ([2, 3, 4], [2, 3, 4])
