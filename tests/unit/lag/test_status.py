"""The rules that judge a consumer by its last ten commits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.lag.status import (
    LONE_COMMIT_MS,
    SHORTEST_SILENCE_MS,
    WINDOW,
    Commit,
    LagStatus,
    group_status,
    partition_status,
)

SECOND = 1000


def commits(offsets: list[int], lags: list[int], every_ms: int = 5 * SECOND) -> list[Commit]:
    return [
        Commit(offset, number * every_ms, lag)
        for number, (offset, lag) in enumerate(zip(offsets, lags, strict=True))
    ]


def judge(window: list[Commit], *, silent_ms: int = SECOND, lag_now: int = 100) -> LagStatus:
    return partition_status(window, lag_now=lag_now, now_ms=window[-1].at_ms + silent_ms)


def test_no_commit_is_no_problem() -> None:
    assert partition_status([], lag_now=1000, now_ms=0) is LagStatus.OK


def test_a_commit_that_left_no_lag_excuses_standing_still() -> None:
    assert judge(commits([5] * 10, [9, 9, 9, 9, 0, 9, 9, 9, 9, 9])) is LagStatus.OK


def test_a_commit_that_left_no_lag_does_not_excuse_the_end() -> None:
    window = commits(list(range(10)), [0] * 10)
    assert judge(window, silent_ms=window[-1].at_ms + 1) is LagStatus.STOP


def test_silence_counts_from_when_there_was_something_to_read() -> None:
    window = commits(list(range(10)), [0] * 10)
    now_ms = 10**9
    just_came = partition_status(window, lag_now=1, now_ms=now_ms, behind_since_ms=now_ms - 1000)
    long_there = partition_status(window, lag_now=1, now_ms=now_ms, behind_since_ms=now_ms - 10**8)
    assert (just_came, long_there) == (LagStatus.OK, LagStatus.STOP)


def test_no_lag_now_is_ok_however_long_the_silence() -> None:
    assert judge(commits([1, 2], [5, 5]), silent_ms=10**9, lag_now=0) is LagStatus.OK


def test_a_shrinking_lag_is_ok_however_large() -> None:
    assert judge(commits(list(range(10)), list(range(10**6, 10**6 - 10, -1)))) is LagStatus.OK


def test_a_lag_that_never_shrinks_is_a_warning() -> None:
    assert judge(commits(list(range(10)), [5, 5, 6, 6, 7, 7, 8, 8, 9, 9])) is LagStatus.WARN


def test_one_step_down_takes_the_warning_back() -> None:
    assert judge(commits(list(range(10)), [5, 5, 6, 6, 7, 6, 8, 8, 9, 9])) is LagStatus.OK


def test_commits_of_one_offset_are_a_stall() -> None:
    assert judge(commits([7] * 10, [3] * 10)) is LagStatus.STALL


def test_an_offset_that_goes_back_is_a_rewind() -> None:
    assert judge(commits([7, 8, 3], [3, 3, 9])) is LagStatus.REWIND


def test_silence_longer_than_the_window_is_a_stop() -> None:
    window = commits(list(range(10)), [5] * 10)
    span = window[-1].at_ms
    assert judge(window, silent_ms=span) is LagStatus.WARN
    assert judge(window, silent_ms=span + 1) is LagStatus.STOP


def test_a_short_window_is_stretched_to_ten_commits() -> None:
    window = commits([1, 2], [5, 5], every_ms=5 * SECOND)
    assert judge(window, silent_ms=45 * SECOND) is LagStatus.OK
    assert judge(window, silent_ms=46 * SECOND) is LagStatus.STOP


def test_a_lone_commit_is_given_a_minute() -> None:
    assert judge(commits([1], [5]), silent_ms=LONE_COMMIT_MS) is LagStatus.OK
    assert judge(commits([1], [5]), silent_ms=LONE_COMMIT_MS + 1) is LagStatus.STOP


def test_a_burst_of_commits_does_not_make_a_stop_of_a_pause() -> None:
    window = commits(list(range(10)), [9, 8, 7, 6, 5, 9, 8, 7, 6, 5], every_ms=1)
    assert judge(window, silent_ms=SHORTEST_SILENCE_MS) is LagStatus.OK


def test_fewer_than_ten_commits_have_no_direction() -> None:
    assert judge(commits([7] * 9, [3] * 9)) is LagStatus.OK


@pytest.mark.parametrize(
    ("partitions", "group"),
    [
        ([], LagStatus.OK),
        ([LagStatus.OK, LagStatus.OK], LagStatus.OK),
        ([LagStatus.OK, LagStatus.WARN], LagStatus.WARN),
        ([LagStatus.WARN, LagStatus.STOP], LagStatus.ERR),
        ([LagStatus.STALL], LagStatus.ERR),
        ([LagStatus.REWIND], LagStatus.ERR),
    ],
)
def test_a_group_is_as_bad_as_its_worst_partition(
    partitions: list[LagStatus], group: LagStatus
) -> None:
    assert group_status(partitions) is group


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 50)), min_size=1, max_size=WINDOW),
    st.integers(0, 10**6),
)
def test_what_only_grows_is_never_a_rewind(steps: list[tuple[int, int]], silent_ms: int) -> None:
    offsets = [sum(step for step, _ in steps[: number + 1]) for number in range(len(steps))]
    window = commits(offsets, [lag for _, lag in steps])
    assert judge(window, silent_ms=silent_ms) is not LagStatus.REWIND
