"""A Kafka-speaking server in a process of its own: Apache Kafka's, or ours."""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from headrace.model.error import HeadraceError, InvalidArgument
from headrace.process.child import die_with_parent
from headrace.testing.readiness import answers_kafka, wait_until
from testkit.process.process_usage import ProcessUsage

_START_SECONDS = 90.0
_STOP_SECONDS = 30.0
_LOG_LINES = 40

Self = TypeVar("Self", bound="ServerProcess")


class ServerFailed(HeadraceError):
    """It did not start, or did not stop; the message ends with the last lines of its log."""


class ServerProcess:
    """Start, stop, kill -9 and start again on the same data, on loopback.

    To implement: `start`, which ends in `_launch`, and, if the address is only known once the
    process runs, `_find_port`.

    The process dies with the thread that started it (the kernel sees to that), so start it from the
    main thread.
    """

    HOST = "127.0.0.1"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def data(self) -> Path:
        """The log directory: partitions, checkpoints, meta.properties."""
        return self.folder / "data"

    @property
    def server_log(self) -> Path:
        return self.folder / "server.log"

    @property
    def address(self) -> str:
        """`host:port` for `bootstrap.servers`."""
        self._running()
        return f"{self.HOST}:{self._port}"

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def running(self) -> bool:
        """Whether it was started, and neither stopped nor killed since."""
        return self._process is not None

    def usage(self) -> ProcessUsage:
        """What the process has cost since it started."""
        return ProcessUsage.of(self.pid)

    def start(self) -> None:
        """Return when it answers requests.

        Raises:
            ServerFailed: with the last lines of its log.
        """
        raise NotImplementedError

    def stop(self, *signals: int) -> int:
        """Stop cleanly, with SIGTERM or the signals given; the exit code, 0 when not running.

        Raises:
            ServerFailed: when it had to be killed; its data is not in a clean state then.
        """
        process, self._process = self._process, None
        if process is None:
            return 0
        for number in signals or (signal.SIGTERM,):
            process.send_signal(number)
        try:
            return process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise self._failed(f"did not stop in {_STOP_SECONDS:g} s and was killed") from None

    def kill(self) -> None:
        """End it with SIGKILL, as a crash of the process does. Harmless when not running."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def __enter__(self: Self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.stop()
        else:
            self.kill()

    # -- for those who implement it

    def _launch(self, command: Sequence[str]) -> None:
        with self.server_log.open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C at the terminal is for the tests, not for it
                preexec_fn=die_with_parent,
            )
        self._process = process

        def answers_or_ended() -> bool:
            if process.poll() is not None:
                return True
            return self._find_port() and answers_kafka(self.HOST, self._port)

        try:
            wait_until(answers_or_ended, what="the start", timeout_seconds=_START_SECONDS)
        except BaseException as error:
            self.kill()
            if isinstance(error, TimeoutError):
                raise self._failed(f"did not answer in {_START_SECONDS:g} s") from None
            raise
        if process.poll() is not None:
            self._process = None
            raise self._failed(f"ended with {process.returncode} while it started")

    def _find_port(self) -> bool:
        """Whether the port is known."""
        return True

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._process is None:
            raise InvalidArgument(f"the server in {self.folder} does not run: start() it first")
        return self._process

    def _check_stopped(self) -> None:
        if self._process is not None:
            raise InvalidArgument(f"the server in {self.folder} runs already: stop() it first")

    def _output(self) -> str:
        return self.server_log.read_text(errors="replace")

    def _failed(self, what: str) -> ServerFailed:
        lines = self._output().splitlines()[-_LOG_LINES:]
        return ServerFailed(f"{type(self).__name__} in {self.folder} {what}:\n" + "\n".join(lines))
