"""A server from elsewhere, written in Java, in a process of its own."""

import contextlib
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar

from testkit.process.child_process import ChildProcess


class JavaProcess(ChildProcess):
    """Runs until the block ends.

    To implement: `_command`, which also prepares the folder, and `_is_up`.

    Attributes:
        START_SECONDS: how long it may take, on a busy machine.
        STOP_SECONDS: how long it may take to stop before it is killed; 0 kills it at once.
    """

    START_SECONDS: ClassVar[float]
    STOP_SECONDS: ClassVar[float] = 0.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, f"{self.NAME.lower()}.log")

    def start(self) -> None:
        """Return when it is up.

        Raises:
            ServerFailed: with the last lines of its log.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log_file.write_bytes(b"")
        command = self._command()
        self._launch(command, self._is_up, seconds=self.START_SECONDS, cwd=self.folder)

    def _command(self) -> Sequence[str]:
        raise NotImplementedError

    def _is_up(self) -> bool:
        raise NotImplementedError

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.STOP_SECONDS and self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(self.STOP_SECONDS)
        self.kill()
