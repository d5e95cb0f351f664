"""moto's server, the AWS API in one Python process."""

import sys
from pathlib import Path

from headrace.testing.readiness import free_port
from testkit.process.child_process import ChildProcess
from testkit.process.listening import HOST, is_listening


class MotoServer(ChildProcess):
    """Serves plain HTTP on loopback; what it holds is in its memory.

    Example:
        with MotoServer(tmp_path) as moto:
            boto3.client("kinesis", endpoint_url=moto.url)
    """

    NAME = "moto"
    START_SECONDS = 120.0

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "moto.log")
        folder.mkdir(parents=True, exist_ok=True)
        self._port = free_port()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port}"

    def start(self) -> None:
        """Return when it accepts connections.

        Raises:
            ServerFailed: with the last lines of its log.
        """
        self._begin_log()
        program = "import logging, moto.server; logging.disable(); moto.server.main()"
        self._launch(
            [sys.executable, "-c", program, "-H", HOST, "-p", str(self._port)],
            lambda: is_listening(self._port),
            seconds=self.START_SECONDS,
        )
