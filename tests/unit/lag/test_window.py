"""Which commits are remembered."""

from headrace.lag.status import WINDOW, Commit, LagStatus
from headrace.lag.window import MIN_DISTANCE_MS, CommitWindow


def test_keeps_the_last_ten() -> None:
    window = CommitWindow()
    for number in range(15):
        window.add(Commit(number, number * MIN_DISTANCE_MS, 1))
    assert [each.offset for each in window.commits] == list(range(5, 15))
    assert len(window.commits) == WINDOW


def test_passes_over_commits_that_come_too_soon() -> None:
    window = CommitWindow()
    for at_ms in range(0, 3 * MIN_DISTANCE_MS, 100):
        window.add(Commit(at_ms, at_ms, 1))
    assert [each.at_ms for each in window.commits] == [0, MIN_DISTANCE_MS, 2 * MIN_DISTANCE_MS]


def test_keeps_a_step_back_however_soon() -> None:
    window = CommitWindow()
    window.add(Commit(10, 0, 1))
    window.add(Commit(3, 1, 8))
    assert window.status(lag_now=8, now_ms=2) is LagStatus.REWIND


def test_passes_over_what_is_older_than_it_knows() -> None:
    window = CommitWindow()
    window.add(Commit(10, 5000, 1))
    window.add(Commit(3, 4000, 8))
    assert [each.offset for each in window.commits] == [10]


def test_lags_are_corrected_by_where_the_log_ended_then() -> None:
    window = CommitWindow()
    window.add(Commit(10, 1000, 99))
    window.add(Commit(20, 2000, 99))
    window.correct_lags(lambda at_ms: at_ms // 100)
    assert [each.lag for each in window.commits] == [0, 0]
    window.correct_lags(lambda at_ms: at_ms // 50)
    assert [each.lag for each in window.commits] == [10, 20]
