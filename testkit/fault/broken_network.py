"""A network between the brokers of a cluster, and between them and ZooKeeper, that can be cut.

There are two. `NamespaceNetwork` is a network of the kernel's own: a cut drops packets
silently. It needs root. `RelayNetwork` does what it can with relays on loopback. In both of them
clients reach a broker that is cut off from all others: it can still be talked to, which is when it
could do harm. Only the kernel's network can cut clients off as well: a machine that is unplugged.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from testkit.peer.zookeeper import ZooKeeperEnsemble
from testkit.process.broker_process import BrokerProcess

Point = str
"""Who talks: `broker 1`, `zookeeper 2`."""

CLIENTS: Point = "clients"
"""The clients, which run in this process."""


def broker_point(number: int) -> Point:
    return f"broker {number}"


def zookeeper_point(number: int) -> Point:
    return f"zookeeper {number}"


class BrokenNetwork(ABC):
    """What a `ClusterProcess` asks for its servers, and a test to break it.

    Attributes:
        MEANS: what cuts are made with, for reports.
        CUTS_CLIENTS: whether `CLIENTS` can be cut off.

    Example:
        network.cut("broker 1", "broker 2")
        network.mend()
    """

    MEANS: ClassVar[str]
    CUTS_CLIENTS: ClassVar[bool] = False

    @abstractmethod
    def ensemble(self, folder: Path, servers: int) -> ZooKeeperEnsemble:
        """Return ZooKeeper servers on this network, not started yet; called once, at first."""

    @abstractmethod
    def broker(self, number: int, home: Path, settings: Mapping[str, str]) -> BrokerProcess:
        """Return a broker on this network that finds the ensemble, not started yet."""

    @abstractmethod
    def cut(self, one: Point, *others: Point) -> None:
        """Cut the connections between `one` and each of the others, in both directions."""

    @abstractmethod
    def mend(self) -> None:
        """Remove every cut."""

    @abstractmethod
    def close(self) -> None:
        """Leave nothing behind. The servers have been stopped."""
