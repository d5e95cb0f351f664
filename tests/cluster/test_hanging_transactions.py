"""Every replica of a partition knows its producers: Kafka's tool may ask any broker (KIP-664)."""

from typing import Any

from confluent_kafka.admin import AdminClient

from headrace.testing.readiness import wait_until
from headrace.wire.api import ApiKey
from testkit.fault.cluster_process import ClusterProcess
from testkit.peer.kafka_tool import KafkaTool, KafkaTools
from testkit.peer.transactional import transactional_producer, write
from testkit.process.wire_client import WireClient


def test_find_hanging_asks_a_follower(
    cluster: ClusterProcess, topic: str, kafka_tools: KafkaTools
) -> None:
    producer = transactional_producer(cluster.address, f"open-{topic}")
    producer.begin_transaction()
    write(producer, topic, b"open")
    found = AdminClient({"bootstrap.servers": cluster.address}).list_topics(topic, timeout=60)
    leader = found.topics[topic].partitions[0].leader
    follower = next(each for each in found.brokers.values() if each.id != leader)

    def described() -> Any:
        with WireClient(f"{follower.host}:{follower.port}") as client:
            body = {"topics": [{"name": topic, "partition_indexes": [0]}]}
            (answer,) = client.ask(ApiKey.DESCRIBE_PRODUCERS, 0, body).topics
        return answer.partitions[0]

    assert described().error_code == 0
    wait_until(
        lambda: [each.current_txn_start_offset for each in described().active_producers] == [0],
        what="the open transaction at a follower",
    )
    kafka_tools.run(
        KafkaTool.TRANSACTIONS,
        *("--bootstrap-server", cluster.address, "find-hanging", "--topic", topic),
        *("--broker-id", str(follower.id), "--max-transaction-timeout", "0"),
    ).checked()
    producer.abort_transaction(60)
