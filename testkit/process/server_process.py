"""A Kafka-speaking server in a process of its own: Apache Kafka's, or ours."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from headrace.testing.readiness import answers_kafka
from testkit.process.child_process import ChildProcess

_START_SECONDS = 240.0


class ServerProcess(ChildProcess):
    """Start, stop, kill -9 and start again on the same data, on loopback.

    To implement: `start`, which ends in `_serve`, and, if the address is only known once the
    process runs, `_find_port`.
    """

    NAME = "server"
    HOST = "127.0.0.1"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "server.log")
        self._port = 0

    @property
    def data(self) -> Path:
        """The log directory: partitions, checkpoints, meta.properties."""
        return self.folder / "data"

    @property
    def address(self) -> str:
        """`host:port` for `bootstrap.servers`."""
        self._running()
        return f"{self.HOST}:{self._port}"

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop cleanly, so that every test also tests the stop; after a failure, kill."""
        if error is None:
            self.stop()
        else:
            self.kill()

    # -- for subclasses

    def _serve(self, command: Sequence[str]) -> None:
        """Start the server, and return when it answers requests."""
        self._launch(command, self._answers, seconds=_START_SECONDS)

    def _answers(self) -> bool:
        return self._find_port() and answers_kafka(self.HOST, self._port)

    def _find_port(self) -> bool:
        """Return whether the port is known."""
        return True
