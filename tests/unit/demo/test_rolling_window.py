import pytest

from headrace.demo.rolling_window import RollingWindow
from headrace.model.error import InvalidArgument


def test_a_moment_lies_in_length_by_slide_windows() -> None:
    window = RollingWindow(length_ms=20_000, slide_ms=5_000)

    assert window.starts(21_234) == [20_000, 15_000, 10_000, 5_000]


def test_a_window_ends_before_its_end() -> None:
    window = RollingWindow(length_ms=10_000, slide_ms=10_000)

    assert window.starts(9_999) == [0]
    assert window.starts(10_000) == [10_000]


def test_the_newest_full_window_is_over() -> None:
    window = RollingWindow(length_ms=20_000, slide_ms=5_000)

    assert window.newest_full(61_000) == 40_000


@pytest.mark.parametrize(("length_ms", "slide_ms"), [(10, 0), (10, 3), (10, 20)])
def test_a_step_that_does_not_divide_the_length_is_refused(length_ms: int, slide_ms: int) -> None:
    with pytest.raises(InvalidArgument, match="the step must divide"):
        RollingWindow(length_ms, slide_ms)
