"""Warnings that strangers cause are few."""

import pytest
import structlog

from headrace.broker.network.limited_warning import Complaints


def test_a_flood_of_complaints_is_a_few_lines_and_a_count() -> None:
    now = [0.0]
    complaints = Complaints(lambda: now[0])
    with structlog.testing.capture_logs() as lines:
        for _ in range(1000):
            complaints.warn("refused")
        now[0] = 5.0
        complaints.warn("refused", peer="x")
    assert len(lines) == 11
    assert lines[-1]["left_out"] == 990
    assert complaints.count == 1001


@pytest.mark.parametrize("seconds", [1.0, 60.0])
def test_rare_complaints_are_all_written(seconds: float) -> None:
    now = [0.0]
    complaints = Complaints(lambda: now[0])
    with structlog.testing.capture_logs() as lines:
        for _ in range(50):
            complaints.warn("refused")
            now[0] += seconds
    assert len(lines) == 50
