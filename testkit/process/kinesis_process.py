"""`headrace kinesis` in a process of its own: started, stopped, and killed."""

import re
import sys
from pathlib import Path
from typing import ClassVar

from testkit.process.child_process import ChildProcess

_URL = re.compile(r"The Kinesis API is at (https?://\S+)")
_START_SECONDS = 240.0


class KinesisProcess(ChildProcess):
    """A gateway on loopback and a free port.

    Example:
        with KinesisProcess(tmp_path, broker.address) as gateway:
            boto3.client("kinesis", endpoint_url=gateway.url)

    Attributes:
        PROGRAM: what Python runs; another one may change a gateway before it starts.
    """

    NAME = "gateway"
    PROGRAM: ClassVar[tuple[str, str]] = ("-m", "headrace.cli.main")

    def __init__(self, folder: Path, brokers: str, *options: str) -> None:
        super().__init__(folder, "kinesis.log")
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
            [sys.executable, *self.PROGRAM, "kinesis", *self._arguments],
            lambda: _URL.search(self.log) is not None,
            seconds=_START_SECONDS,
        )
