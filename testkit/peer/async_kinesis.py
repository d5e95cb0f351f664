"""async-kinesis, a consumer on aiobotocore, in a process of its own.

aiobotocore needs an older botocore than the gateway, so both are in a folder of their own.
"""

import os
import sys
from pathlib import Path

from testkit.peer.python_peer import find_packages
from testkit.process.child_process import ChildProcess


class AsyncKinesisConsumer(ChildProcess):
    """Runs a program that consumes a stream and prints what it gets, until it has enough.

    Raises:
        PeerMissing: the set-up did not run.
    """

    NAME = "async-kinesis"
    START_SECONDS = 180.0

    def __init__(self, folder: Path, program: Path, *arguments: str) -> None:
        super().__init__(folder, "consumed")
        self._packages = find_packages("async-kinesis")
        self._command = [sys.executable, str(program), *arguments]

    def start(self) -> None:
        """Return when it runs.

        Raises:
            ServerFailed: with what it printed.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log_file.write_bytes(b"")
        environment = {
            **os.environ,
            "PYTHONPATH": str(self._packages),
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
        }
        self._launch(
            self._command,
            lambda: "starts" in self.log,
            seconds=self.START_SECONDS,
            environment=environment,
        )
