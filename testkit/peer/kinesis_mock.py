"""kinesis-mock, the Kinesis API in one Node process: npm's `kinesis-local`."""

import os
import sys
from pathlib import Path

from headrace.testing.readiness import free_port
from testkit.peer.peer import PeerMissing, find_program
from testkit.process.child_process import ChildProcess
from testkit.process.listening import HOST, is_listening

PROGRAM = Path(sys.prefix) / "kinesis-local" / "main.js"


class KinesisMock(ChildProcess):
    """Serves plain HTTP on loopback; its records are in its memory, and in no file.

    Raises:
        PeerMissing: the set-up did not run, or there is no Node.

    Example:
        with KinesisMock(tmp_path) as mock:
            boto3.client("kinesis", endpoint_url=mock.url)
    """

    NAME = "kinesis-mock"
    START_SECONDS = 180.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "kinesis-mock.log")
        folder.mkdir(parents=True, exist_ok=True)
        self._node = find_program("node", package="nodejs")
        if not PROGRAM.is_file():
            raise PeerMissing("kinesis-local is not installed: run tools/setup-peers")
        self._port = free_port()
        self._tls_port = free_port()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}"

    def start(self) -> None:
        """Return when it accepts connections.

        Raises:
            ServerFailed: with the last lines of its log.
        """
        self._begin_log()
        environment = {
            **os.environ,
            "KINESIS_MOCK_PLAIN_PORT": str(self._port),
            "KINESIS_MOCK_TLS_PORT": str(self._tls_port),
            "LOG_LEVEL": "ERROR",
            "SHARD_LIMIT": "1000",
        }
        self._launch(
            [str(self._node), str(PROGRAM)],
            lambda: is_listening(self._port),
            seconds=self.START_SECONDS,
            cwd=PROGRAM.parent,  # where its certificate is
            environment=environment,
        )
