"""A tap or a target as a child process: pipes that never block for ever, and bounded lines."""

import os
import select
import shlex
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import IO, Final

import structlog

from headrace.ingest.error import ProtocolError
from headrace.ingest.format.line_buffer import LineBuffer
from headrace.ingest.settings import Setting, Settings, flag, number, text
from headrace.process.die_with_parent import die_with_parent

_log = structlog.get_logger(__name__)
_READ_BYTES = 65_536
_STEP_SECONDS = 0.1
_STOP_SECONDS = 5.0
_LAST_LINES = 5
_LINE_SHOWN = 500
_LONGEST_LINE = 16 << 20

PROGRAM_SETTINGS: Final[tuple[Setting, ...]] = (
    text("command", "The program and its arguments, such as tap-github.", required=True),
    text("config", "Its configuration file: --config FILE."),
    number("timeout", "Milliseconds without output until it counts as hung.", 600_000, minimum=1),
    number("maxLineLength", "Longest message in bytes.", _LONGEST_LINE, minimum=1),
    flag("logStdErr", "Write its standard error to our log.", False),
)
"""The settings of every component that runs a program of Singer's."""


def command_of(settings: Settings, *arguments: str) -> list[str]:
    """Return the command as a list, with its configuration file and more arguments.

    Raises:
        SettingError: the command cannot be split into words.
    """
    written = settings.text("command")
    try:
        words = shlex.split(written)
    except ValueError as error:
        raise settings.wrong("command", f"command {written!r} cannot be split: {error}") from None
    if not words:
        raise settings.wrong("command", "command is empty: write the name of a program")
    config = settings.optional("config")
    return [*words, *(("--config", config) if config else ()), *arguments]


class Program:
    """A running program in a process group of its own, which ends with the agent.

    Its standard error is read by a thread: the last lines are part of the error when it fails.

    Threads: one, beside that.
    """

    def __init__(self, command: Sequence[str], settings: Settings, *, feeds: bool) -> None:
        """Args:
        feeds: it reads messages from its standard input, as a target does.

        Raises:
            OSError: it cannot be started.
        """
        self.name = os.path.basename(command[0])  # noqa: PTH119 - part of a command, no path
        self._timeout_seconds = settings.number("timeout") / 1000
        self._logs = settings.flag("logStdErr")
        self._longest = settings.number("maxLineLength")
        self._lines = LineBuffer(self._longest)
        self._stderr: deque[str] = deque(maxlen=_LAST_LINES)
        self._process = subprocess.Popen(  # noqa: S603 - the command is the configuration's
            command,
            stdin=subprocess.PIPE if feeds else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._stdout: IO[bytes] = self._process.stdout
        os.set_blocking(self._stdout.fileno(), False)
        if self._process.stdin is not None:
            os.set_blocking(self._process.stdin.fileno(), False)
        self._reader = Thread(
            target=self._read_stderr, args=(self._process.stderr,), name=self.name, daemon=True
        )
        self._reader.start()
        self._heard_at = time.monotonic()
        self.ended = False

    def read_lines(self, wait_seconds: float = _STEP_SECONDS) -> list[bytes]:
        """Return lines that it has written, after a short wait for the first of them. `ended` is
        set at the end of its output.

        Raises:
            ProtocolError: it wrote a longer line than allowed, or nothing for too long.
        """
        if not _is_ready(self._stdout, select.POLLIN, wait_seconds):
            if time.monotonic() - self._heard_at > self._timeout_seconds:
                raise ProtocolError(
                    f"{self.name} wrote nothing for {self._timeout_seconds:g} s (timeout)"
                )
            return []
        data: bytes | None = self._stdout.read(_READ_BYTES)
        if data is None:  # a pipe that only seemed to be ready
            return []
        self._heard_at = time.monotonic()
        if not data:
            self.ended = True
            rest = self._lines.take_rest()
            return [rest] if rest.strip() else []
        lines = [line for line in self._lines.feed(data) if line.strip()]
        if self._lines.overlong or any(len(line) > self._longest for line in lines):
            raise ProtocolError(f"{self.name} wrote a line above maxLineLength")
        return lines

    def write(self, data: bytes, on_line: Callable[[bytes], None]) -> None:
        """Write to its standard input, and read what it writes meanwhile.

        Raises:
            ProtocolError: it takes nothing for too long.
            OSError: it has closed its input.
        """
        stdin = self._process.stdin
        assert stdin is not None
        view = memoryview(data)
        taken_at = time.monotonic()
        while view:
            ready = _is_ready(stdin, select.POLLOUT, _STEP_SECONDS)
            if ready:
                written = os.write(stdin.fileno(), view[:_READ_BYTES])
                view, taken_at = view[written:], time.monotonic()
            elif time.monotonic() - taken_at > self._timeout_seconds:
                raise ProtocolError(
                    f"{self.name} took nothing for {self._timeout_seconds:g} s (timeout)"
                )
            if not self.ended and _is_ready(self._stdout, select.POLLIN, 0):
                for line in self.read_lines(0):
                    on_line(line)

    def close_input(self) -> None:
        """Say that no more messages come."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    def wait(self) -> int:
        """Return its exit code; after its output has ended it must end soon."""
        try:
            return self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.wait()

    def why(self) -> str:
        """Return the end of its standard error, for a message."""
        self._reader.join(_STEP_SECONDS)
        last = " | ".join(self._stderr)
        return f"; its last lines: {last}" if last else ""

    def stop(self) -> None:
        """End it: kindly, then not."""
        self.close_input()
        if self._process.poll() is None:
            self._signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End it and its children at once."""
        self._signal(signal.SIGKILL)
        self._process.wait()
        self.close_input()
        self._stdout.close()
        self._reader.join(_STEP_SECONDS)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _read_stderr(self, stream: IO[bytes]) -> None:
        buffer = LineBuffer(_LINE_SHOWN)
        with stream:
            while data := stream.read(_READ_BYTES):
                lines = buffer.feed(data)
                if buffer.overlong:
                    lines.append(buffer.take_rest())
                for line in lines:
                    written = line[:_LINE_SHOWN].decode("utf-8", "replace").rstrip()
                    self._stderr.append(written)
                    if self._logs:
                        _log.info("program_stderr", program=self.name, line=written)
            if rest := buffer.take_rest():
                self._stderr.append(rest.decode("utf-8", "replace").rstrip())


def _is_ready(stream: IO[bytes], event: int, seconds: float) -> bool:
    """Wait until a pipe can be read or written, or has lost its other end."""
    poll = select.poll()
    poll.register(stream, event)
    return bool(poll.poll(seconds * 1000))
