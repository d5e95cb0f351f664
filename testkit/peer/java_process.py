"""A server of others', written in Java, in a process of its own."""

import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar, TypeVar

from headrace.process.child import die_with_parent
from headrace.testing.readiness import wait_until
from testkit.process.process_usage import ProcessUsage
from testkit.process.server_process import ServerFailed

_LOG_LINES = 40

Self = TypeVar("Self", bound="JavaProcess")


class JavaProcess:
    """Runs until the block ends.

    To implement: `_command`, which also prepares the folder, and `_is_up`.

    Attributes:
        NAME: what messages call it.
        START_SECONDS: how long it may take, on a busy machine.
        STOP_SECONDS: how long it may take to say good-bye; 0: it is killed.
    """

    NAME: ClassVar[str]
    START_SECONDS: ClassVar[float]
    STOP_SECONDS: ClassVar[float] = 0.0

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return self._log_file.read_text(errors="replace")

    def usage(self) -> ProcessUsage:
        """What the process has cost since it started."""
        assert self._process is not None
        return ProcessUsage.of(self._process.pid)

    def _command(self) -> Sequence[str]:
        raise NotImplementedError

    def _is_up(self) -> bool:
        raise NotImplementedError

    @property
    def _log_file(self) -> Path:
        return self.folder / f"{self.NAME.lower()}.log"

    def __enter__(self: Self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        command = self._command()
        with self._log_file.open("wb") as log:
            self._process = process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

        def up() -> bool:
            if process.poll() is not None:
                raise ServerFailed(f"it ended with {process.returncode}")
            return self._is_up()

        try:
            wait_until(up, what=f"the start of {self.NAME}", timeout_seconds=self.START_SECONDS)
        except BaseException as error:
            self._end()
            lines = "\n".join(self.log.splitlines()[-_LOG_LINES:])
            raise ServerFailed(f"{self.NAME} did not start ({error}):\n{lines}") from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if self.STOP_SECONDS:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(self.STOP_SECONDS)
            except subprocess.TimeoutExpired:
                pass
            else:
                return
        process.kill()
        process.wait()
