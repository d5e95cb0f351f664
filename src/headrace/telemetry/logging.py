"""The format of log lines: an event, then its fields as `key=value`, or one JSON object per line.

Everything in Headrace logs through `structlog.get_logger()`; only `configure` configures it, and
the command line calls that once. Logs go to standard error: standard output is for results.
"""

import logging
import sys
from typing import Literal, TextIO, cast

import structlog

from headrace.telemetry.log_levels import ROOT, log_levels

LogFormat = Literal["text", "json"]
LEVELS = ("debug", "info", "warning", "error")


class _CurrentStandardError:
    """Writes to what `sys.stderr` is at that moment: a live display replaces it with a stream that
    prints above the display."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


class _Logger(structlog.PrintLogger):
    """Prints lines, and knows the name it was got by."""

    def __init__(self, name: str) -> None:
        super().__init__(cast(TextIO, _CurrentStandardError()))
        self.name = name


def _make_logger(name: str = ROOT) -> _Logger:
    return _Logger(name)


def configure(level: str = "info", style: LogFormat = "text") -> None:
    """Set the level and the format of every later log line of this process. `log_levels` changes
    the levels of single loggers later.

    >>> configure("warning", "json")
    """
    if level not in LEVELS:
        raise ValueError(f"log level cannot be {level!r}: write one of {', '.join(LEVELS)}")
    log_levels.put(ROOT, getattr(logging, level.upper()))
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if style == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            log_levels.drop_below,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=_make_logger,
        cache_logger_on_first_use=True,
    )
