"""A real ZooKeeper for tests, from the jars inside the PySpark wheel."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from headrace.process.java import JavaMissing
from headrace.process.zookeeper import EnsembleMember, ZooKeeperMissing, ZooKeeperServer
from headrace.testing.readiness import free_port, wait_until
from testkit.peer.peer import PeerMissing
from testkit.process.child_process import KilledAtExit, ServerFailed
from testkit.process.place import LOOPBACK, Place

# Java starts slowly while other tests have the cores.
_START_SECONDS = 180.0
# Sessions of a second are possible: a test must not wait long for one to end.
_TICK_MS = 250


class ZooKeeper(KilledAtExit):
    """A server on loopback: start, stop, kill -9, and start again on the same data and port.

    Example:
        with ZooKeeper(tmp_path) as zookeeper:
            ZooKeeperStore.open(zookeeper.address)
    """

    def __init__(
        self,
        folder: Path,
        *,
        number: int = 1,
        ensemble: Mapping[int, EnsembleMember] | None = None,
        place: Place = LOOPBACK,
        settings: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._server = ZooKeeperServer(
            folder,
            free_port(),
            number=number,
            ensemble=ensemble,
            tick_ms=_TICK_MS,
            host=place.host,
            prefix=place.prefix,
            settings=settings,
            java_options=java_options,
        )

    @property
    def address(self) -> str:
        return self._server.address

    @property
    def pid(self) -> int:
        return self._server.pid

    @property
    def port(self) -> int:
        return self._server.port

    def launch(self) -> None:
        """Start it without waiting: one of an ensemble serves only when another does.

        Raises:
            PeerMissing: no Java, or no PySpark.
        """
        try:
            self._server.launch()
        except (ZooKeeperMissing, JavaMissing) as missing:
            raise PeerMissing(str(missing)) from missing

    def start(self) -> None:
        """Return when it serves.

        Raises:
            PeerMissing: no Java, or no PySpark.
            ServerFailed: it ended, or did not answer in time.
        """
        self.launch()
        self.wait_until_it_serves()

    def wait_until_it_serves(self) -> None:
        server = self._server
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


class ZooKeeperEnsemble(KilledAtExit):
    """Several servers that need a majority of them; one, if one is enough.

    Example:
        with ZooKeeperEnsemble(tmp_path, servers=3) as ensemble:
            ensemble.server(2).kill()
    """

    def __init__(
        self, folder: Path, *, servers: int = 1, place: Callable[[int], Place] = lambda _: LOOPBACK
    ) -> None:
        places = {each: place(each) for each in range(1, servers + 1)}
        members = {
            each: EnsembleMember(free_port(), free_port(), found.host)
            for each, found in places.items()
        }
        self.servers = {
            each: ZooKeeper(
                folder / f"server-{each}",
                number=each,
                ensemble=members if servers > 1 else None,
                place=found,
            )
            for each, found in places.items()
        }

    @property
    def address(self) -> str:
        return ",".join(each.address for each in self.servers.values())

    def server(self, number: int) -> ZooKeeper:
        return self.servers[number]

    def start(self) -> None:
        """Return when each of them serves.

        Raises:
            PeerMissing: no Java, or no PySpark.
            ServerFailed: one ended, or did not answer in time.
        """
        for server in self.servers.values():
            server.launch()
        for server in self.servers.values():
            server.wait_until_it_serves()

    def kill(self) -> None:
        for server in self.servers.values():
            server.kill()
