"""One ZooKeeper for all cluster tests; each test gets a root of its own in it."""

from collections.abc import Iterator
from itertools import count

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing.readiness import wait_until
from testkit.fault.broken_network import BrokenNetwork
from testkit.fault.cluster_process import ClusterProcess
from testkit.fault.namespace_network import NamespaceNetwork
from testkit.fault.relay_network import RelayNetwork
from testkit.peer.peer import PeerMissing, require_peer
from testkit.peer.zookeeper import ZooKeeper

_roots = count(1)
_topics = count(1)


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """A real server."""
    server = ZooKeeper(tmp_path_factory.mktemp("zookeeper"))
    try:
        server.start()
    except PeerMissing as missing:
        require_peer(str(missing))
    yield server
    server.kill()


@pytest.fixture
def ensemble(zookeeper: ZooKeeper) -> str:
    """Where a store finds nothing yet."""
    return f"{zookeeper.address}/test-{next(_roots)}"


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    """Three brokers and a ZooKeeper as processes. A test may kill them, and starts them again; and
    cut them off from each other, and mends that."""
    try:
        # Cables that can be cut without a word, which root can lay; relays for other users.
        network: BrokenNetwork = NamespaceNetwork()
    except PeerMissing:
        network = RelayNetwork()
    cluster = ClusterProcess(tmp_path_factory.mktemp("cluster"), network=network)
    try:
        with cluster:
            yield cluster
    except PeerMissing as missing:
        require_peer(str(missing))


@pytest.fixture
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcess]:
    """Three brokers for one test that needs to know every topic there is."""
    cluster = ClusterProcess(tmp_path_factory.mktemp("own-cluster"))
    try:
        with cluster:
            yield cluster
    except PeerMissing as missing:
        require_peer(str(missing))


@pytest.fixture
def topic(cluster: ClusterProcess) -> str:
    """A topic with three partitions and three replicas of each."""
    name = f"orders-{next(_topics)}"
    admin = AdminClient({"bootstrap.servers": cluster.address})

    def created() -> bool:
        try:
            admin.create_topics([NewTopic(name, 3, 3)])[name].result(30)
        except KafkaException as refused:
            # A broker that the test before has killed or cut off is not back yet.
            if refused.args[0].code() != KafkaError.INVALID_REPLICATION_FACTOR:
                raise
            return False
        return True

    wait_until(created, what="three brokers", timeout_seconds=120.0)
    cluster.wait_in_sync(name)
    return name
