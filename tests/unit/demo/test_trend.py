from collections import Counter

from headrace.demo.trend import Trend


def test_pages_that_rise_most_come_first() -> None:
    trend = Trend(Counter({"/": 90, "/new": 30, "/old": 5}), Counter({"/": 100, "/new": 10}))

    assert trend.table(20).rows == (("/new", 30, 10, "+200%"), ("/", 90, 100, "-10%"))


def test_without_a_window_to_compare_with_there_is_no_row() -> None:
    assert Trend(Counter({"/": 90})).table(20).rows == ()
