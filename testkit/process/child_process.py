"""A program in a process of its own, with a log file."""

import atexit
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from headrace.model.error import HeadraceError, InvalidArgument
from headrace.process.die_with_parent import die_with_parent
from headrace.testing.readiness import wait_until
from testkit.process.forked_process import ForkedProcess, ForkServers
from testkit.process.process_usage import ProcessUsage

_LOG_LINES = 40
_HEADRACE = [sys.executable, "-m", "headrace.cli.main"]
_fork_servers: ForkServers | None = None


def start_as_forks() -> None:
    """Let commands of `headrace` that tests start be forks from now on: they have imported the
    program already. What is measured, as in benchmarks, starts by itself."""
    global _fork_servers
    if _fork_servers is None:
        _fork_servers = ForkServers()
        atexit.register(_fork_servers.close)


class ServerFailed(HeadraceError):
    """A server did not start, or did not stop; the message ends with the last lines of its log."""


class KilledAtExit:
    """A context manager that starts on entry, and kills on exit or when the start fails.

    To implement: `start` and `kill`.
    """

    def start(self) -> None:
        raise NotImplementedError

    def kill(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


class ChildProcess(KilledAtExit):
    """Start, stop, kill -9 and start again in the same folder.

    To implement: `start`, which ends in `_launch`, and `NAME`.

    The kernel kills the process when the thread that started it ends, so start it from the main
    thread.

    Attributes:
        NAME: what messages call the program.
        log_file: what the program writes to standard output and standard error.
    """

    NAME = "process"
    # How long a clean stop may take before the test fails.
    STOP_WITHIN_SECONDS = 90.0

    def __init__(self, folder: Path, log_file: str) -> None:
        self.folder = folder
        self.log_file = folder / log_file
        self._process: subprocess.Popen[bytes] | ForkedProcess | None = None

    @property
    def log(self) -> str:
        return self.log_file.read_text(errors="replace")

    @property
    def whole_log(self) -> str:
        """What it wrote since its first start; `log` has the present one alone."""
        earlier = (
            self._earlier_log.read_text(errors="replace") if self._earlier_log.exists() else ""
        )
        return earlier + self.log

    @property
    def _earlier_log(self) -> Path:
        return self.log_file.with_name(f"{self.log_file.name}.earlier")

    def _begin_log(self) -> None:
        """Begin a new log for a new start, and keep the lines of the one before."""
        if self.log_file.exists():
            with self._earlier_log.open("ab") as kept:
                kept.write(self.log_file.read_bytes())
        self.log_file.write_bytes(b"")

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def running(self) -> bool:
        """Whether it was started, and neither stopped nor killed since."""
        return self._process is not None

    def usage(self) -> ProcessUsage:
        """Return what the process has cost since it started."""
        return ProcessUsage.of(self.pid)

    def stop(self, *signals: int) -> int:
        """Stop cleanly, with SIGTERM or the signals given; return the exit code, 0 if not running.

        Raises:
            ServerFailed: when it had to be killed; its data is not in a clean state then.
        """
        process, self._process = self._process, None
        if process is None:
            return 0
        for number in signals or (signal.SIGTERM,):
            process.send_signal(number)
        try:
            return process.wait(self.STOP_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise self._failed(
                f"did not stop in {self.STOP_WITHIN_SECONDS:g} s and was killed"
            ) from None

    def kill(self) -> None:
        """End it with SIGKILL, as a crash of the process does. Harmless when not running."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    # -- for subclasses

    def _launch(
        self,
        command: Sequence[str],
        is_up: Callable[[], bool],
        *,
        seconds: float,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start the program, and return when `is_up`.

        Raises:
            InvalidArgument: it runs already.
            ServerFailed: it ended, or was not up in time.
        """
        self._check_stopped()
        process = self._process = self._begin(list(command), cwd, environment)
        try:
            wait_until(
                lambda: process.poll() is not None or is_up(),
                what=f"the start of {self.NAME}",
                timeout_seconds=seconds,
            )
        except TimeoutError:
            self.kill()
            raise self._failed(f"was not up after {seconds:g} s") from None
        except BaseException:
            self.kill()
            raise
        if process.poll() is not None:
            self._process = None
            raise self._failed(f"ended with {process.returncode} while it started")

    def _begin(
        self, command: list[str], cwd: Path | None, environment: Mapping[str, str] | None
    ) -> "subprocess.Popen[bytes] | ForkedProcess":
        with self.log_file.open("ab") as log:
            program, arguments = command[: len(_HEADRACE)], command[len(_HEADRACE) :]
            if _fork_servers is not None and program == _HEADRACE and environment is None:
                forked = _fork_servers.start(arguments, cwd or Path.cwd(), log.fileno())
                if forked is not None:
                    return forked
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=environment,
                start_new_session=True,  # Ctrl-C at the terminal is for the tests, not for it
                preexec_fn=die_with_parent,
            )

    def _running(self) -> "subprocess.Popen[bytes] | ForkedProcess":
        if self._process is None:
            raise InvalidArgument(f"{self.NAME} in {self.folder} does not run: start() it first")
        return self._process

    def _check_stopped(self) -> None:
        if self._process is not None:
            raise InvalidArgument(f"{self.NAME} in {self.folder} runs already: stop() it first")

    def _failed(self, what: str) -> ServerFailed:
        lines = self.log.splitlines()[-_LOG_LINES:]
        return ServerFailed(f"{self.NAME} in {self.folder} {what}:\n" + "\n".join(lines))
