"""The `headrace` command in this process: as fast as a function call, with exit code and output."""

import io
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO
from unittest.mock import patch

import structlog

from headrace.cli.main import main
from headrace.telemetry.log_levels import ROOT, log_levels


@dataclass(frozen=True, slots=True)
class Finished:
    """What a command did. `raw` is standard output as bytes."""

    code: int
    raw: bytes
    err: str

    @property
    def out(self) -> str:
        return self.raw.decode()

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


def run_headrace(
    *arguments: str, stdin: bytes = b"", environment: Mapping[str, str] | None = None
) -> Finished:
    """Run one command, as the console script does.

    Only what needs a process of its own (signals, terminals, start-up time) is better run in one.

    >>> run_headrace("--version").code
    0
    """
    with (
        tempfile.TemporaryFile() as typed,
        _replaced(os.environ, environment or {}),
    ):
        typed.write(stdin)
        typed.seek(0)
        others = {thread.ident for thread in threading.enumerate()} - {threading.get_ident()}
        written = io.BytesIO()
        out = _Stream(written, others, sys.stdout)
        error_lines = io.BytesIO()
        err = _Stream(error_lines, others, sys.stderr)
        before = sys.argv, sys.stdin, sys.stdout, sys.stderr
        logging, level = structlog.get_config(), log_levels.level(ROOT)
        sys.argv = ["headrace", *arguments]
        sys.stdin, sys.stdout, sys.stderr = io.TextIOWrapper(typed), out, err
        try:
            with patch.object(structlog, "configure", _configure_uncached):
                main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        finally:
            sys.stdin.detach()
            sys.argv, sys.stdin, sys.stdout, sys.stderr = before
            # A command that serves, or should be quiet, configures it for its whole process.
            structlog.configure(**logging)
            log_levels.put(ROOT, level)
        out.flush()
        err.flush()
        return Finished(code, written.getvalue(), error_lines.getvalue().decode())


_configure = structlog.configure


def _configure_uncached(**options: Any) -> None:
    """Configure logging for one command: loggers that keep it would be silent in later tests."""
    _configure(**{**options, "cache_logger_on_first_use": False})


class _Stream(io.TextIOWrapper):
    """What a command writes. Servers that a test runs in threads of this process write on to
    where they wrote before: their log is not the command's."""

    def __init__(self, written: io.BytesIO, others: set[int | None], before: TextIO) -> None:
        super().__init__(written, encoding="utf-8")
        self._others = others
        self._before = before

    def write(self, text: str) -> int:
        if threading.get_ident() in self._others:
            return self._before.write(text)
        return super().write(text)

    def flush(self) -> None:
        if threading.get_ident() in self._others:
            self._before.flush()
        else:
            super().flush()


@contextmanager
def _replaced(target: Any, changes: Mapping[str, str]) -> Iterator[None]:
    before = dict(target)
    target.update(changes)
    try:
        yield
    finally:
        target.clear()
        target.update(before)
