"""A network that is cut as a cable is: every server in a network namespace of its own.

Each namespace has a cable (veth) to a hub, a namespace that forwards packets. A cut is a rule of
the hub to drop, without a word, what goes from one to the other: connections hang, new ones get no
answer, and TCP goes on by itself when the cut is mended. This process, in which the clients are,
has a cable to the hub too.

Rule 1: a namespace has no name. It lasts as long as a process is in it, and all of those die with
this one, however it ends: the kernel takes namespaces, cables and routes away. So nothing of a run
that was killed is left to clean up.
Rule 2: the only name that other processes see is this process's end of its cable. The process that
made it owns the number in that name, and with it a subnet of 198.18.0.0/15, which RFC 2544 reserves
for tests.
"""

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from headrace.process.die_with_parent import die_with_parent
from headrace.testing.readiness import wait_until
from testkit.fault.broken_network import (
    CLIENTS,
    BrokenNetwork,
    Point,
    broker_point,
    zookeeper_point,
)
from testkit.peer.peer import PeerMissing, find_program
from testkit.peer.zookeeper import ZooKeeperEnsemble
from testkit.process.broker_process import BrokerProcess
from testkit.process.place import Place

_NETWORKS = 64
_HUB_HOST, _CLIENT_HOST = 254, 253
_PORT = 9092
_OWN = Path("/proc/self/ns/net")


class NamespaceNetwork(BrokenNetwork):
    """As root, and where `ip` is.

    Raises:
        PeerMissing: this process may not make namespaces; the message says why.
    """

    MEANS: ClassVar[str] = "network namespaces"
    CUTS_CLIENTS: ClassVar[bool] = True

    def __init__(self) -> None:
        self._ip = str(find_program("ip", package="iproute2"))
        self._hosts: dict[Point, str] = {}
        self._cuts: list[str] = []
        self._zookeepers = ""
        self._holders: list[subprocess.Popen[bytes]] = []
        try:
            self._hub = self._hold()
            self._number = self._connect_this_process()
        except BaseException:
            self._release()
            raise

    # -- servers

    def ensemble(self, folder: Path, servers: int) -> ZooKeeperEnsemble:
        made = ZooKeeperEnsemble(
            folder, servers=servers, place=lambda number: self.place(zookeeper_point(number))
        )
        self._zookeepers = made.address
        return made

    def broker(self, number: int, home: Path, settings: Mapping[str, str]) -> BrokerProcess:
        way = {"zookeeper.connect": self._zookeepers}
        return NamespacedBroker(home, {**settings, **way}, self.place(broker_point(number)))

    # -- cuts

    def cut(self, one: Point, *others: Point) -> None:
        mine, theirs = self._hosts[one], [self._hosts[other] for other in others]
        rules = [f"from {mine} to {each} blackhole" for each in theirs]
        rules += [f"from {each} to {mine} blackhole" for each in theirs]
        self._run(self._hub, [f"rule add {rule}" for rule in rules])
        self._cuts += rules

    def mend(self) -> None:
        rules, self._cuts = self._cuts, []
        self._run(self._hub, [f"rule del {rule}" for rule in rules])

    def close(self) -> None:
        # It would go with the hub; but the kernel takes its time for that.
        with suppress(PeerMissing):
            self._run(None, [f"link del {self.link}"])
        self._release()

    # -- cables

    @property
    def link(self) -> str:
        """The end of the cable that is in this process's own namespace."""
        return f"headrace{self._number}"

    def _host(self, number: int) -> str:
        return f"198.18.{self._number}.{number}"

    def _connect_this_process(self) -> int:
        """Connect this process to the hub (rule 2)."""
        hub = self._hub.pid
        for number in range(_NETWORKS):
            self._number = number
            if Path(f"/sys/class/net/{self.link}").exists():
                continue
            try:
                self._run(None, [f"link add {self.link} type veth peer name clients netns {hub}"])
            except PeerMissing:
                # Another process was faster; or it is not allowed, and the next try fails too.
                if not Path(f"/sys/class/net/{self.link}").exists():
                    raise
                continue
            break
        else:
            raise PeerMissing(f"there are {_NETWORKS} networks of namespaces already")
        self._lay(None, self.link, "clients", _CLIENT_HOST)
        self._hosts[CLIENTS] = self._host(_CLIENT_HOST)
        self._do(self._hub, ["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
        self._run(None, [f"route add {self._host(0)}/24 via {self._host(_HUB_HOST)}"])
        return number

    def place(self, point: Point) -> Place:
        """Return a namespace with a cable to the hub, in which to start this point's server."""
        holder = self._hold()
        number = len(self._hosts)
        far = f"point{number}"
        self._run(self._hub, [f"link add {far} type veth peer name eth0 netns {holder.pid}"])
        self._lay(holder, "eth0", far, number)
        self._run(
            holder, ["link set lo up", f"route add default via {self._host(_HUB_HOST)} dev eth0"]
        )
        self._hosts[point] = self._host(number)
        return Place(self._host(number), tuple(self._enter(holder)))

    def _lay(
        self, near: "subprocess.Popen[bytes] | None", name: str, far: str, number: int
    ) -> None:
        """Give both ends of a cable their addresses and the routes to each other."""
        own, hub = self._host(number), self._host(_HUB_HOST)
        self._run(
            near,
            [
                f"addr add {own}/32 dev {name}",
                f"link set {name} up",
                f"route add {hub}/32 dev {name} src {own}",
            ],
        )
        self._run(
            self._hub,
            [
                f"addr add {hub}/32 dev {far}",
                f"link set {far} up",
                f"route add {own}/32 dev {far} src {hub}",
            ],
        )

    # -- namespaces

    def _hold(self) -> "subprocess.Popen[bytes]":
        """Start a process that sleeps in a new namespace (rule 1)."""
        command = [str(find_program("unshare", package="util-linux")), "--net", "sleep", "infinity"]
        holder = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
        self._holders.append(holder)
        there = Path(f"/proc/{holder.pid}/ns/net")
        wait_until(
            lambda: holder.poll() is not None or there.readlink() != _OWN.readlink(),
            what="a network namespace",
        )
        if holder.poll() is not None:
            raise PeerMissing("network namespaces cannot be made: run the tests as root")
        return holder

    def _enter(self, holder: "subprocess.Popen[bytes]") -> list[str]:
        nsenter = str(find_program("nsenter", package="util-linux"))
        return [nsenter, f"--net=/proc/{holder.pid}/ns/net"]

    def _run(self, holder: "subprocess.Popen[bytes] | None", lines: Iterable[str]) -> None:
        """Run lines of `ip` in a namespace, or in this process's."""
        self._do(holder, [self._ip, "-batch", "-"], "\n".join(lines))

    def _do(
        self, holder: "subprocess.Popen[bytes] | None", command: Sequence[str], text: str = ""
    ) -> None:
        within = [] if holder is None else self._enter(holder)
        done = subprocess.run(
            [*within, *command], input=text, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise PeerMissing(f"the network cannot be made: {done.stderr.strip()}")

    def _release(self) -> None:
        for holder in self._holders:
            holder.kill()
            holder.wait()
        self._holders.clear()


class NamespacedBroker(BrokerProcess):
    """A broker at the end of a cable of its own; others and clients reach it the same way."""

    def __init__(self, folder: Path, settings: Mapping[str, str], place: Place) -> None:
        super().__init__(folder, {**settings, "listeners": f"PLAINTEXT://{place.host}:{_PORT}"})
        self.HOST = place.host
        self._port = _PORT
        self._prefix = place.prefix

    def _serve(self, command: Sequence[str]) -> None:
        super()._serve([*self._prefix, *command])

    def _find_port(self) -> bool:
        return True
