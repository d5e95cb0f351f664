"""Real processes, killed while clients write and read: nothing is lost, doubled or changed."""

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing.cluster_process import ClusterProcess
from headrace.testing.peer import PeerMissing, require_peer
from headrace.testing.readiness import wait_until
from headrace.testing.workload import Workload

PARTITIONS = 3


@pytest.fixture
def cluster(tmp_path):
    try:
        with ClusterProcess(tmp_path / "cluster") as cluster:
            admin = AdminClient({"bootstrap.servers": cluster.address})
            admin.create_topics([NewTopic("orders", PARTITIONS, 3)])["orders"].result(30)
            yield cluster
    except PeerMissing as missing:
        require_peer(str(missing))


def acknowledged_more(workload):
    """Wait until records that are sent from now on have been acknowledged."""
    wanted = workload.sent + 50
    wait_until(lambda: workload.acknowledged > wanted, what="acknowledged records")


def test_killed_and_stopped_brokers_lose_nothing(cluster):
    workload = Workload(cluster.address, "orders", PARTITIONS)
    with workload.running():
        acknowledged_more(workload)

        killed = cluster.leader("orders")
        cluster.broker(killed).kill()
        acknowledged_more(workload)
        cluster.broker(killed).start()
        cluster.wait_in_sync("orders")

        stopped = next(each for each in cluster.brokers if each != killed)
        cluster.broker(stopped).stop()
        acknowledged_more(workload)
        cluster.broker(stopped).start()
        cluster.wait_in_sync("orders")

        cluster.zookeeper.kill()
        acknowledged_more(workload)
        cluster.zookeeper.start()
        acknowledged_more(workload)

    cluster.wait_in_sync("orders")
    assert workload.failures == []
    assert workload.acknowledged == workload.sent
    assert workload.history.check(workload.read_all()) == []
