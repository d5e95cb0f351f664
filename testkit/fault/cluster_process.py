"""A cluster of real processes: a ZooKeeper, and brokers that can be killed and started again."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from headrace.client.error import ClientError, ConnectionLost, Unreachable
from headrace.client.network.metadata import Metadata
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.testing.local_cluster import FOR_CLUSTER_TESTS
from headrace.testing.readiness import wait_until
from testkit.fault.broken_network import BrokenNetwork
from testkit.peer.zookeeper import ZooKeeperEnsemble
from testkit.process.broker_process import BrokerProcess
from testkit.process.child_process import KilledAtExit

# Far more than it takes: a machine that runs other tests meanwhile may be five times slower.
_WAIT_SECONDS = 120.0
_ANSWER_SECONDS = 60.0
_LOG_LINES = 30


class ClusterProcess(KilledAtExit):
    """Brokers 1, 2, 3, ... on loopback, each with its data below `folder`.

    Args:
        zookeepers: how many servers the ensemble has.
        network: cuts brokers off from each other and from ZooKeeper on demand; closed with the
            cluster.

    Example:
        with ClusterProcess(tmp_path) as cluster:
            cluster.broker(1).kill()
            cluster.broker(1).start()
    """

    def __init__(
        self,
        folder: Path,
        *,
        brokers: int = 3,
        zookeepers: int = 1,
        settings: Mapping[str, str] | None = None,
        defaults: Mapping[str, str] = FOR_CLUSTER_TESTS,
        network: BrokenNetwork | None = None,
    ) -> None:
        self.network = network
        place = folder / "zookeeper"
        if network is None:
            self.zookeeper = ZooKeeperEnsemble(place, servers=zookeepers)
        else:
            self.zookeeper = network.ensemble(place, zookeepers)
        self.brokers: dict[int, BrokerProcess] = {}
        for number in range(1, brokers + 1):
            home = folder / f"broker-{number}"
            own = {**defaults, "node.id": str(number), **(settings or {})}
            if network is None:
                own = {"zookeeper.connect": self.zookeeper.address, **own}
                self.brokers[number] = BrokerProcess(home, own)
            else:
                self.brokers[number] = network.broker(number, home, own)

    def broker(self, number: int) -> BrokerProcess:
        return self.brokers[number]

    @property
    def address(self) -> str:
        """All brokers that run, for `bootstrap.servers`."""
        return ",".join(each.address for each in self.brokers.values() if each.running)

    def start(self) -> None:
        """Return when every broker answers.

        Raises:
            PeerMissing: no Java, or no PySpark.
            ServerFailed: one of them did not start.
        """
        self.zookeeper.start()
        for broker in self.brokers.values():
            broker.start()

    def leader(self, topic: str, partition: int = 0, *, asked: Iterable[int] | None = None) -> int:
        """Return the leader according to any broker, or to one of `asked`; -1 for none."""
        found = self.metadata(topic, asked=asked).topics.get(topic)
        if found is None or partition not in found.partitions:
            return -1
        return found.partitions[partition].leader

    def metadata(self, *topics: str, asked: Iterable[int] | None = None) -> Metadata:
        """Return the cluster's metadata from any broker, or from one of `asked`."""
        servers = self.address
        if asked is not None:
            servers = ",".join(self.brokers[each].address for each in asked)
        answers: list[Metadata] = []

        def answered() -> bool:
            # One that is cut off hangs up instead of answering, so that clients ask others.
            with suppress(ConnectionLost, Unreachable), ConnectionPool(settings) as pool:
                answers.append(pool.metadata(list(topics)))
            return bool(answers)

        settings = ClientSettings.of({"bootstrap.servers": servers})
        wait_until(answered, what="an answer about the cluster", timeout_seconds=_ANSWER_SECONDS)
        return answers[0]

    def wait_in_sync(self, *topics: str) -> None:
        """Return when every replica of these topics is in sync.

        Raises:
            TimeoutError: with who leads and who is in sync, as the last answer said.
        """
        seen: list[str] = []

        def in_sync() -> bool:
            try:
                metadata = self.metadata(*topics)
            except ClientError as error:
                # One that was cut off a moment ago answers nothing.
                seen[:] = [str(error)]
                return False
            seen[:] = [f"brokers {sorted(metadata.brokers)}"]
            sound = True
            for name in topics:
                found = metadata.topics.get(name)
                if found is None:
                    sound = False
                    continue
                for index, each in sorted(found.partitions.items()):
                    sound = sound and not each.under_replicated and each.leader >= 0
                    seen.append(f"{name}-{index}: leader {each.leader}, in sync {each.in_sync}")
            return sound

        try:
            wait_until(in_sync, what="replicas that are all in sync", timeout_seconds=_WAIT_SECONDS)
        except TimeoutError as late:
            raise TimeoutError(f"{late}; " + "; ".join(seen) + self.last_log_lines()) from None

    def last_log_lines(self) -> str:
        """Return what the brokers logged last, to explain a wait that failed elsewhere."""
        found = []
        for number, broker in self.brokers.items():
            lines = broker.log.splitlines()[-_LOG_LINES:]
            found += [f"\nbroker {number} ({'runs' if broker.running else 'is down'}):", *lines]
        return "\n".join(found)

    def kill(self) -> None:
        """Kill all of them, as a power cut does."""
        for broker in self.brokers.values():
            broker.kill()
        self.zookeeper.kill()
        if self.network is not None:
            self.network.close()
