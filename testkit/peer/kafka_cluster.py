"""Several Apache Kafka brokers and the controller they share, as `ClusterProcess` is for ours."""

from collections.abc import Mapping
from pathlib import Path

from headrace.testing.readiness import free_port
from testkit.peer.apache_kafka import ApacheKafka, KafkaProfile, new_cluster_id
from testkit.process.child_process import KilledAtExit

CONTROLLER_ID = 100


class KafkaNode(ApacheKafka):
    """One node of a cluster: its port and the cluster's id are given, the rest is `settings`."""

    def __init__(
        self,
        folder: Path,
        port: int,
        cluster_id: str,
        *,
        profile: KafkaProfile,
        settings: Mapping[str, str],
    ) -> None:
        super().__init__(folder, profile=profile, settings=settings)
        self._cluster_id = cluster_id
        self._fixed_port = port

    def _configure(self) -> None:
        super()._configure()
        self._port = self._fixed_port


class KafkaCluster(KilledAtExit):
    """Brokers 1, 2, 3, ... and one controller (KRaft) in a process of its own, as ZooKeeper is one
    for Headrace: a broker that is killed does not take the controller with it.

    Example:
        with KafkaCluster(tmp_path, profile=STOCK) as cluster:
            cluster.broker(1).kill()
    """

    def __init__(
        self,
        folder: Path,
        *,
        profile: KafkaProfile,
        brokers: int = 3,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        cluster_id, port, host = new_cluster_id(), free_port(), ApacheKafka.HOST
        shared = {
            "controller.quorum.voters": f"{CONTROLLER_ID}@{host}:{port}",
            **(settings or {}),
        }
        self.controller = KafkaNode(
            folder / "controller",
            port,
            cluster_id,
            profile=profile,
            settings={
                **shared,
                "process.roles": "controller",
                "node.id": str(CONTROLLER_ID),
                "listeners": f"CONTROLLER://{host}:{port}",
                "advertised.listeners": f"CONTROLLER://{host}:{port}",
            },
        )
        self.brokers: dict[int, KafkaNode] = {}
        for number in range(1, brokers + 1):
            port = free_port()
            self.brokers[number] = KafkaNode(
                folder / f"broker-{number}",
                port,
                cluster_id,
                profile=profile,
                settings={
                    **shared,
                    "process.roles": "broker",
                    "node.id": str(number),
                    "listeners": f"PLAINTEXT://{host}:{port}",
                    "advertised.listeners": f"PLAINTEXT://{host}:{port}",
                },
            )

    def broker(self, number: int) -> KafkaNode:
        return self.brokers[number]

    @property
    def address(self) -> str:
        """All brokers that run, for `bootstrap.servers`."""
        return ",".join(each.address for each in self.brokers.values() if each.running)

    def start(self) -> None:
        """Return when every broker answers.

        Raises:
            ServerFailed: one of them did not start.
        """
        self.controller.start()
        for broker in self.brokers.values():
            broker.start()

    def kill(self) -> None:
        for node in (*self.brokers.values(), self.controller):
            node.kill()
