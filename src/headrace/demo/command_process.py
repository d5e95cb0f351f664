"""Runs a `headrace` command in a process of its own."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from headrace.model.error import HeadraceError
from headrace.process.die_with_parent import die_with_parent

_START_SECONDS = 60.0
_STOP_SECONDS = 20.0
_POLL_SECONDS = 0.02


class CommandFailed(HeadraceError):
    """A command did not start, or has ended; the message ends with its output."""


class CommandProcess:
    """A `headrace` command that runs while the context is open, and never longer than this process.

    It has a session of its own, so that Ctrl-C reaches only this process, which stops its commands
    in order.

    Args:
        name: for messages; its log file has this name too.
        ready: the pattern of the line that the command prints once it is ready. The first group is
            its `address`.

    Example:
        with CommandProcess("broker", ["up", "--listen", "127.0.0.1:0"], ready, folder) as broker:
            Producer({"bootstrap.servers": broker.address})
    """

    def __init__(self, name: str, arguments: Sequence[str], ready: bytes, folder: Path) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._address: str | None = None
        self._arguments = arguments
        self._ready = re.compile(ready)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "CommandProcess":
        with self.log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-m", "headrace.cli.main", *self._arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        return self

    @property
    def address(self) -> str:
        """The address that the command printed. The first call waits until the command is ready.

        Raises:
            CommandFailed: it did not start.
        """
        if self._address is None:
            self._address = self._wait()
        return self._address

    def check(self) -> None:
        """Raise if the command has ended.

        Raises:
            CommandFailed: it has ended.
        """
        if self._process is not None and self._process.poll() is not None:
            raise CommandFailed(f"the {self.name} ended; it said: {self._last_output()}")

    def _wait(self) -> str:
        assert self._process is not None
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            line = self._ready.search(self.log.read_bytes())
            if line is not None:
                return line.group(1).decode()
            if self._process.poll() is not None:
                break
            time.sleep(_POLL_SECONDS)
        raise CommandFailed(f"the {self.name} did not start; it said: {self._last_output()}")

    def _last_output(self) -> str:
        return self.log.read_text(errors="replace").strip()[-2_000:] or "nothing"

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_SECONDS)
        finally:
            # Also if a second Ctrl-C interrupts the wait.
            process.kill()
            process.wait()
