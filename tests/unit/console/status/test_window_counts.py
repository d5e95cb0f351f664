"""The growth of counters over windows."""

from headrace.console.status.window_counts import WINDOWS, Counts, WindowCounts

MINUTE_MS = 60_000


def counting(minutes: int) -> WindowCounts[str]:
    """A component that executes 100 tuples in a minute, looked at every ten seconds."""
    counts: WindowCounts[str] = WindowCounts()
    for step in range(minutes * 6 + 1):
        counts.add(step * 10_000, {"split": Counts(executed=step * 100 // 6)})
    return counts


def test_a_window_has_what_was_counted_in_it() -> None:
    counts = counting(minutes=30)
    assert 900 <= counts.within("split", 600).executed <= 1_050
    assert counts.totals()["split"].executed == 3_000
    assert [counts.within("split", each).executed for each in WINDOWS[1:]] == [3_000, 3_000]


def test_a_component_that_came_later_is_counted_whole() -> None:
    counts = counting(minutes=5)
    counts.add(6 * MINUTE_MS, {"late": Counts(emitted=8)})
    assert counts.within("late", 600).emitted == 8
    assert counts.within("absent", 600) == Counts()


def test_a_counter_that_went_back_began_again() -> None:
    counts = counting(minutes=5)
    counts.add(6 * MINUTE_MS, {"split": Counts(executed=3)})
    assert counts.within("split", 600) == Counts(executed=3)


def test_so_many_totals_are_kept_and_no_more() -> None:
    counts = counting(minutes=120)
    assert [len(each) <= 21 for each in counts._kept.values()] == [True, True, True]
