"""Warnings that any client can cause are few."""

import logging

import pytest
import structlog

from headrace.broker.limited_warning import LimitedWarning
from headrace.telemetry.log_levels import LogLevels


def test_a_flood_of_warnings_is_a_few_lines_and_a_count() -> None:
    now = [0.0]
    warnings = LimitedWarning(lambda: now[0], structlog.get_logger("some.module"))
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
    warnings = LimitedWarning(lambda: now[0], structlog.get_logger("some.module"))
    with structlog.testing.capture_logs() as lines:
        for _ in range(50):
            warnings.warn("refused")
            now[0] += seconds
    assert len(lines) == 50


def test_it_says_whether_a_line_was_written() -> None:
    warnings = LimitedWarning(lambda: 0.0, structlog.get_logger("some.module"))

    assert [warnings.warn("refused") for _ in range(12)] == [True] * 10 + [False] * 2


def test_the_level_of_the_callers_logger_decides(capsys: pytest.CaptureFixture[str]) -> None:
    levels = LogLevels()
    levels.put("some.module", logging.ERROR)
    for name in ("some.module", "other.module"):
        log = structlog.wrap_logger(
            structlog.PrintLogger(), [levels.drop_below, structlog.processors.JSONRenderer()]
        )
        log._logger.name = name
        LimitedWarning(lambda: 0.0, log).warn("refused", by=name)

    assert capsys.readouterr().out == '{"by": "other.module", "event": "refused"}\n'
