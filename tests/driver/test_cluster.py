"""The source and the sink run unchanged on the executors of a Spark standalone cluster."""

from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing.broker_process import BrokerProcess
from headrace.testing.peer import PeerMissing, require_peer
from headrace.testing.spark_cluster import EXECUTOR_MEMORY, SparkCluster
from headrace.testing.spark_driver import run_driver

COUNT = 400
DRIVER = Path(__file__).with_name("program") / "cluster.py"


def test_executors_of_a_cluster_write_and_read(broker: BrokerProcess, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": broker.address})
    topics = {"batch": "cluster-batch", "stream": "cluster-stream"}
    for future in admin.create_topics([NewTopic(each, 4, 1) for each in topics.values()]).values():
        future.result(10)
    try:
        with SparkCluster(tmp_path / "cluster") as cluster:
            task = {
                "master": cluster.url,
                "address": broker.address,
                "folder": str(tmp_path),
                "count": COUNT,
                "executor_memory": EXECUTOR_MEMORY,
                **topics,
            }
            seen = run_driver(DRIVER, task)
            executors = cluster.executors()
    except PeerMissing as missing:
        require_peer(str(missing))

    assert seen == sorted([str(number), f"value {number}"] for number in range(COUNT))
    assert executors == 2
