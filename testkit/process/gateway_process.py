"""A gateway in a process of its own: a command of `headrace` that serves HTTP, and prints where."""

import re
import sys
from pathlib import Path
from typing import ClassVar

from testkit.process.child_process import ChildProcess

_URL = re.compile(r"^The .* is at (https?://\S+)$", re.MULTILINE)
_START_SECONDS = 240.0


class GatewayProcess(ChildProcess):
    """Started, stopped and killed, on loopback and a free port.

    To implement: `NAME` and `COMMAND`.

    Attributes:
        COMMAND: the command of `headrace`.
        PROGRAM: what Python runs; another one may change a gateway before it starts.
    """

    COMMAND: ClassVar[str]
    PROGRAM: ClassVar[tuple[str, str]] = ("-m", "headrace.cli.main")

    def __init__(self, folder: Path, brokers: str, *options: str) -> None:
        super().__init__(folder, f"{self.COMMAND}.log")
        folder.mkdir(parents=True, exist_ok=True)
        self._arguments = ("--listen", "127.0.0.1:0", "-b", brokers, *options)

    @property
    def url(self) -> str:
        found = _URL.search(self.log)
        assert found is not None
        return found[1]

    def start(self) -> None:
        """Return when it serves.

        Raises:
            ServerFailed: with the last lines of its log.
        """
        self._begin_log()
        self._launch(
            [sys.executable, *self.PROGRAM, self.COMMAND, *self._arguments],
            lambda: _URL.search(self.log) is not None,
            seconds=_START_SECONDS,
        )
