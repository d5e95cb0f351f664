"""Ticks are round, in order, and hold every figure between them."""

import pytest

from bench.chart.scale import steps_around, tick_text, ticks_to, times


@pytest.mark.parametrize("largest", [0.003, 0.7, 1, 12, 99.9, 100, 31_449, 1_488_095, 11_428_423])
def test_linear_ticks_begin_at_zero_and_reach_the_largest(largest: float) -> None:
    ticks = ticks_to(largest)

    assert ticks[0] == 0
    assert ticks[-2] < largest <= ticks[-1] * (1 + 1e-9)
    assert 3 <= len(ticks) <= 7


@pytest.mark.parametrize(("smallest", "largest"), [(0.03, 5.3), (1, 1), (10, 2560), (0.09, 45)])
def test_logarithmic_steps_hold_both_ends(smallest: float, largest: float) -> None:
    steps = steps_around(smallest, largest)

    assert steps[0] <= smallest and steps[-1] >= largest
    assert len(steps) >= 2
    assert steps == sorted(steps)


def test_figures_are_written_as_people_read_them() -> None:
    assert [tick_text(each) for each in (0, 0.25, 400, 10_000, 1_250_000)] == [
        "0",
        "0.25",
        "400",
        "10 k",
        "1.25 M",
    ]
    assert [times(each) for each in (0.926, 39.94, 503.96)] == ["0.93×", "39.94×", "504×"]
