"""A real ZooKeeper for tests, from the jars inside the PySpark wheel."""

from pathlib import Path
from types import TracebackType

from headrace.process.zookeeper import ZooKeeperMissing, ZooKeeperServer
from headrace.testing.peer import PeerMissing
from headrace.testing.readiness import free_port, wait_until
from headrace.testing.server_process import ServerFailed

_START_SECONDS = 60.0
# Sessions of a second are possible: a test must not wait long for one to end.
_TICK_MS = 250


class ZooKeeper:
    """A server on loopback: start, stop, kill -9, and start again on the same data and port.

    Example:
        with ZooKeeper(tmp_path) as zookeeper:
            ZooKeeperStore.open(zookeeper.address)
    """

    def __init__(self, folder: Path) -> None:
        self._server = ZooKeeperServer(folder, free_port(), tick_ms=_TICK_MS)

    @property
    def address(self) -> str:
        return self._server.address

    @property
    def pid(self) -> int:
        return self._server.pid

    def start(self) -> None:
        """Return when it serves.

        Raises:
            PeerMissing: no Java, or no PySpark.
            ServerFailed: it ended, or did not answer in time.
        """
        server = self._server
        try:
            server.launch()
        except ZooKeeperMissing as missing:
            raise PeerMissing(str(missing)) from missing
        try:
            wait_until(
                lambda: server.exit_code is not None or server.serves(),
                what="ZooKeeper",
                timeout_seconds=_START_SECONDS,
            )
        except TimeoutError:
            server.kill()
        if server.exit_code is not None or not server.serves():
            said = server.server_log.read_text(errors="replace")[-4000:]
            raise ServerFailed(f"ZooKeeper did not start:\n{said}")

    def stop(self) -> None:
        self._server.stop()

    def kill(self) -> None:
        self._server.kill()

    def __enter__(self) -> "ZooKeeper":
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
