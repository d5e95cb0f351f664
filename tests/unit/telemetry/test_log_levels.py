"""Which log lines are written, while levels change."""

import logging
from collections.abc import Iterator

import pytest
import structlog

from headrace.telemetry.log_levels import ROOT, LogLevels, log_levels
from headrace.telemetry.logging import configure


@pytest.fixture
def configured() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)
    log_levels.clear("headrace.a")
    log_levels.put(ROOT, logging.INFO)


def test_a_logger_has_its_own_level_or_that_of_the_package_above() -> None:
    levels = LogLevels()
    levels.put("headrace.broker", logging.DEBUG)
    levels.put("headrace.broker.replica.fetcher", logging.ERROR)

    assert levels.level("headrace.broker.dispatch") == logging.DEBUG
    assert levels.level("headrace.broker.replica.fetcher") == logging.ERROR
    assert levels.level("headrace.cluster.controller") == logging.INFO

    levels.clear("headrace.broker.replica.fetcher")
    levels.put(ROOT, logging.WARNING)

    assert levels.level("headrace.broker.replica.fetcher") == logging.DEBUG
    assert levels.level("headrace.cluster.controller") == logging.WARNING


def test_the_loggers_of_loaded_modules_have_names() -> None:
    import headrace.broker.dispatch  # noqa: F401

    names = LogLevels().names()

    assert {ROOT, "headrace", "headrace.broker", "headrace.broker.dispatch"} <= names
    assert "headrace.model.ids" not in names


def test_a_level_that_changes_counts_for_loggers_that_have_logged(
    configured: None, capsys: pytest.CaptureFixture[str]
) -> None:
    configure("info")
    logger = structlog.get_logger("headrace.a.b")
    logger.debug("before")
    log_levels.put("headrace.a", logging.DEBUG)
    logger.debug("meanwhile")
    log_levels.clear("headrace.a")
    logger.debug("after")
    logger.info("always")

    said = capsys.readouterr().err

    assert "meanwhile" in said
    assert "always" in said
    assert "before" not in said
    assert "after" not in said
