"""The source and the sink run unchanged on the executors of a Spark standalone cluster."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from testkit.peer.peer import PeerMissing, require_peer
from testkit.peer.spark_cluster import EXECUTOR_MEMORY, SparkCluster
from testkit.peer.spark_driver import run_driver
from testkit.process.broker_process import BrokerProcess

COUNT = 400
# One task of every stage per executor.
EXECUTORS = 2
DRIVER = Path(__file__).with_name("program") / "cluster.py"


@pytest.mark.timeout(900)
def test_executors_of_a_cluster_write_and_read(broker: BrokerProcess, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    topics = {"batch": "cluster-batch", "stream": "cluster-stream"}
    for future in admin.create_topics(
        [NewTopic(each, EXECUTORS, 1) for each in topics.values()]
    ).values():
        future.result(60)
    try:
        with SparkCluster(tmp_path / "cluster", workers=EXECUTORS) as cluster:
            task = {
                "master": cluster.url,
                "address": broker.address,
                "folder": str(tmp_path),
                "count": COUNT,
                "tasks": EXECUTORS,
                "executor_memory": EXECUTOR_MEMORY,
                **topics,
            }
            seen = run_driver(DRIVER, task, timeout_seconds=600)
            executors = cluster.executors()
    except PeerMissing as missing:
        require_peer(str(missing))

    assert seen == sorted([str(number), f"value {number}"] for number in range(COUNT))
    assert executors == EXECUTORS
