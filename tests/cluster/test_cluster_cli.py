"""`headrace cluster` on three brokers."""

import json

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing.readiness import wait_until
from testkit.process.command_line import run_headrace


def ask(cluster, *words):
    done = run_headrace("cluster", *words, "-b", cluster.address, "--format", "json")
    assert done.code == 0, done.err or done.out
    return json.loads(done.out)


def test_brokers_are_listed_with_what_they_carry(cluster, topic):
    found = ask(cluster, "brokers")

    assert [each["id"] for each in found] == [1, 2, 3]
    assert sum(each["controller"] for each in found) == 1
    assert all(each["replicas"] >= 3 for each in found)


def test_partitions_are_shown_with_their_replicas(cluster, topic):
    found = ask(cluster, "partitions", topic)

    assert [each["partition"] for each in found] == [0, 1, 2]
    assert all(sorted(each["in-sync"]) == sorted("1,2,3") for each in found)


def replicas_by_broker(cluster):
    return {each["id"]: each["replicas"] for each in ask(cluster, "brokers")}


def test_a_broker_is_emptied_and_its_records_move_along(own_cluster):
    cluster, name = own_cluster, "orders"
    admin = AdminClient({"bootstrap.servers": cluster.address})
    admin.create_topics([NewTopic(name, 3, 1)])[name].result(30)
    producer = Producer({"bootstrap.servers": cluster.address, "acks": 1, "log_level": 0})
    for index in range(3):
        producer.produce(name, b"kept", partition=index)
    assert producer.flush(30) == 0

    ask(cluster, "decommission", "1")

    # The broker that is asked may hear of the last move a moment later, here and below.
    wait_until(lambda: replicas_by_broker(cluster).get(1) == 0, what="an empty broker")
    assert sum(replicas_by_broker(cluster).values()) == 3
    assert {each["replicas"] for each in ask(cluster, "partitions", name)} <= {"2", "3"}

    ask(cluster, "rebalance")

    spread = {1: 1, 2: 1, 3: 1}
    wait_until(lambda: replicas_by_broker(cluster) == spread, what="a replica on each broker")
