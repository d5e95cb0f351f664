"""A network that is cut by relays on loopback, where there is no cable to pull.

Every broker, and for every broker each ZooKeeper server, stands behind a relay. While two of them
are cut off from each other, open connections carry nothing, and go on where they were when the cut
is mended, as TCP would. New connections are closed at once, which a cut cable would not do.
"""

import select
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import ClassVar

from headrace.testing.readiness import free_port
from testkit.fault.broken_network import (
    BrokenNetwork,
    Point,
    broker_point,
    zookeeper_point,
)
from testkit.peer.zookeeper import ZooKeeperEnsemble
from testkit.process.broker_process import BrokerProcess

HOST = "127.0.0.1"
_PIECE_BYTES = 1 << 16
_LOOK_SECONDS = 0.05


class RelayNetwork(BrokenNetwork):
    """Which points cannot talk to each other, and the relays that see to it."""

    MEANS: ClassVar[str] = "relays"

    def __init__(self) -> None:
        self._cuts: frozenset[frozenset[Point]] = frozenset()
        self._relays: list[Relay] = []
        self._servers: dict[int, int] = {}
        self._brokers: dict[int, BrokerProcess] = {}

    def ensemble(self, folder: Path, servers: int) -> ZooKeeperEnsemble:
        made = ZooKeeperEnsemble(folder, servers=servers)
        self._servers = {number: server.port for number, server in made.servers.items()}
        return made

    def broker(self, number: int, home: Path, settings: Mapping[str, str]) -> BrokerProcess:
        ports = [
            self.relay(port, zookeeper_point(each), lambda *_: broker_point(number))
            for each, port in self._servers.items()
        ]
        way = {"zookeeper.connect": ",".join(f"{HOST}:{port}" for port in ports)}
        relay = partial(self.relay, point=broker_point(number), caller=self._caller)
        made = self._brokers[number] = RelayedBroker(home, {**settings, **way}, relay)
        return made

    def _caller(self, port: int, relay_port: int) -> Point | None:
        """Return which broker calls another one."""
        running = [
            (broker_point(number), broker.pid)
            for number, broker in self._brokers.items()
            if broker.running
        ]
        return owner_of(port, relay_port, running)

    def cut(self, one: Point, *others: Point) -> None:
        self._cuts |= {frozenset((one, other)) for other in others}

    def mend(self) -> None:
        self._cuts = frozenset()

    def is_cut(self, one: Point, other: Point) -> bool:
        return frozenset((one, other)) in self._cuts

    def relay(self, port: int, point: Point, caller: "Caller") -> int:
        """Relay to `port`, which is `point`'s; return the port that callers use instead."""
        made = Relay(self, port, point, caller)
        self._relays.append(made)
        return made.port

    def close(self) -> None:
        for relay in self._relays:
            relay.close()


class RelayedBroker(BrokerProcess):
    """A broker that others reach through a relay, and clients directly."""

    def __init__(self, folder: Path, settings: Mapping[str, str], relay: Callable[[int], int]):
        own_port, self._client_port = free_port(), free_port()
        clients = f"CLIENTS://{self.HOST}:{self._client_port}"
        super().__init__(
            folder,
            {
                **settings,
                "listeners": f"PLAINTEXT://{self.HOST}:{own_port},{clients}",
                "advertised.listeners": f"PLAINTEXT://{self.HOST}:{relay(own_port)},{clients}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:PLAINTEXT",
            },
        )

    def _find_port(self) -> bool:
        found = super()._find_port()
        self._port = self._client_port
        return found


Caller = Callable[[int, int], Point | None]
"""Who calls, by the port it calls from and the relay's own port; None when it has gone already."""


def owner_of(port: int, peer_port: int, pids: Iterable[tuple[Point, int]]) -> Point | None:
    """Return whose process has the end of a loopback connection that is at `port`."""
    wanted = f"{port:04X}", f"{peer_port:04X}"
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if (fields[1].partition(":")[2], fields[2].partition(":")[2]) == wanted:
            link = f"socket:[{fields[9]}]"
            return next((point for point, pid in pids if _has(pid, link)), None)
    return None


def _has(pid: int, link: str) -> bool:
    try:
        return any(str(each.readlink()) == link for each in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


class Relay:
    """One port that stands before another. A thread a connection: it carries little."""

    def __init__(self, network: RelayNetwork, port: int, point: Point, caller: Caller) -> None:
        self._network = network
        self._target = port
        self._point = point
        self._caller = caller
        self._closed = threading.Event()
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name=f"relay to {point}", daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        self._listener.close()

    def _accept(self) -> None:
        self._listener.settimeout(_LOOK_SECONDS)
        while not self._closed.is_set():
            try:
                inner, (_, port) = self._listener.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            threading.Thread(target=self._carry, args=(inner, port), daemon=True).start()

    def _carry(self, inner: socket.socket, port: int) -> None:
        with inner:
            caller = self._caller(port, self.port)
            if caller is None or self._network.is_cut(caller, self._point):
                return
            try:
                with socket.create_connection((HOST, self._target), timeout=5) as outer:
                    self._pump(caller, inner, outer)
            except OSError:
                return

    def _pump(self, caller: Point, inner: socket.socket, outer: socket.socket) -> None:
        for end in (inner, outer):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while not self._closed.is_set():
            if self._network.is_cut(caller, self._point):
                self._closed.wait(_LOOK_SECONDS)
                continue
            for end in select.select((inner, outer), (), (), _LOOK_SECONDS)[0]:
                piece = end.recv(_PIECE_BYTES)
                if not piece:
                    return
                # What was on its way when the cut came arrives late, as after a retransmission.
                while self._network.is_cut(caller, self._point):
                    if self._closed.wait(_LOOK_SECONDS):
                        return
                (outer if end is inner else inner).sendall(piece)
