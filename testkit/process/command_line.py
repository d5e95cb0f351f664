"""The `headrace` command in this process: as fast as a function call, with exit code and output."""

import io
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from headrace.cli.main import main


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
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        err = io.StringIO()
        before = sys.argv, sys.stdin, sys.stdout, sys.stderr
        logging = structlog.get_config()
        sys.argv = ["headrace", *arguments]
        sys.stdin, sys.stdout, sys.stderr = io.TextIOWrapper(typed), out, err
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        finally:
            sys.stdin.detach()
            sys.argv, sys.stdin, sys.stdout, sys.stderr = before
            # A command that serves, or should be quiet, configures it for its whole process.
            structlog.configure(**logging)
        out.flush()
        buffer = out.detach()
        assert isinstance(buffer, io.BytesIO)
        return Finished(code, buffer.getvalue(), err.getvalue())


@contextmanager
def _replaced(target: Any, changes: Mapping[str, str]) -> Iterator[None]:
    before = dict(target)
    target.update(changes)
    try:
        yield
    finally:
        target.clear()
        target.update(before)
