"""How log lines look: one event, then its facts as `key=value`, or one JSON object a line.

Everything in Headrace logs through `structlog.get_logger()`; nothing configures it but `configure`,
which the command line calls once. Logs go to standard error: standard output is for results.
"""

import logging
import sys
from typing import Literal, TextIO, cast

import structlog

LogFormat = Literal["text", "json"]
LEVELS = ("debug", "info", "warning", "error")


class _CurrentStandardError:
    """Whatever standard error is when a line is written: a live display puts something in its place
    that prints above it."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def configure(level: str = "info", style: LogFormat = "text") -> None:
    """Set level and shape of every later log line of this process.

    >>> configure("warning", "json")
    """
    if level not in LEVELS:
        raise ValueError(f"log level cannot be {level!r}: write one of {', '.join(LEVELS)}")
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if style == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, _CurrentStandardError())),
        cache_logger_on_first_use=True,
    )
