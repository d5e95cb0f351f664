"""Warnings that any client can cause are few."""

import pytest
import structlog

from headrace.broker.limited_warning import LimitedWarning


def test_a_flood_of_warnings_is_a_few_lines_and_a_count() -> None:
    now = [0.0]
    warnings = LimitedWarning(lambda: now[0])
    with structlog.testing.capture_logs() as lines:
        for _ in range(1000):
            warnings.warn("refused")
        now[0] = 5.0
        warnings.warn("refused", peer="x")
    assert len(lines) == 11
    assert lines[-1]["left_out"] == 990
    assert warnings.count == 1001


@pytest.mark.parametrize("seconds", [1.0, 60.0])
def test_rare_warnings_are_all_written(seconds: float) -> None:
    now = [0.0]
    warnings = LimitedWarning(lambda: now[0])
    with structlog.testing.capture_logs() as lines:
        for _ in range(50):
            warnings.warn("refused")
            now[0] += seconds
    assert len(lines) == 50
