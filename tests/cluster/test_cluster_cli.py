"""`headrace cluster` on three brokers."""

import json
import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from headrace.client.admin.replica_admin import ReplicaAdmin
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.testing.readiness import wait_until
from testkit.fault.cluster_process import ClusterProcess
from testkit.peer.peer import PeerMissing, require_peer
from testkit.process.command_line import run_headrace


def ask(cluster, *words):
    done = run_headrace("cluster", *words, "-b", cluster.address, "--format", "json")
    assert done.code == 0, done.err or done.out
    return json.loads(done.out)


def test_brokers_are_listed_with_what_they_carry(cluster, topic):
    found = []

    def all_are_there():
        # One that is late for a moment on a slow machine is not listed, or not in sync.
        found[:] = ask(cluster, "brokers")
        return [each["id"] for each in found] == [1, 2, 3]

    wait_until(all_are_there, what="three brokers")
    assert sum(each["controller"] for each in found) == 1
    assert all(each["replicas"] >= 3 for each in found)


def test_partitions_are_shown_with_their_replicas(cluster, topic):
    found = []

    def all_in_sync():
        found[:] = ask(cluster, "partitions", topic)
        return all(sorted(each["in-sync"]) == sorted("1,2,3") for each in found)

    wait_until(all_in_sync, what="replicas in sync")
    assert [each["partition"] for each in found] == [0, 1, 2]


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
    wait_until(
        lambda: {each["replicas"] for each in ask(cluster, "partitions", name)} <= {"2", "3"},
        what="one replica of each partition, on the others",
    )

    ask(cluster, "rebalance")

    spread = {1: 1, 2: 1, 3: 1}
    wait_until(lambda: replicas_by_broker(cluster) == spread, what="a replica on each broker")


def set_throttle(admin, broker, value):
    """Set, or with None remove, how fast a broker copies what catches up."""
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    key = "follower.replication.throttled.rate"
    entry = ConfigEntry(key, value, incremental_operation=operation)
    resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=[entry])
    for each in admin.incremental_alter_configs([resource]).values():
        each.result(60)


def is_moving(cluster):
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": cluster.address})) as pool:
        return bool(ReplicaAdmin(pool).moves())


def test_a_topic_that_came_to_a_broker_while_it_was_emptied_is_named(own_cluster):
    cluster = own_cluster
    admin = AdminClient({"bootstrap.servers": cluster.address})
    configs = {"follower.replication.throttled.replicas": "*"}
    moved = NewTopic("moved", 1, replica_assignment=[[1, 2]], config=configs)
    admin.create_topics([moved])["moved"].result(60)
    producer = Producer({"bootstrap.servers": cluster.address, "message.max.bytes": 4_000_000})
    for _ in range(8):  # the first piece goes over the limit, and the others wait
        producer.produce("moved", random.randbytes(1_000_000))
        assert producer.flush(60) == 0
    cluster.wait_in_sync("moved")
    set_throttle(admin, 3, "1")

    def create_meanwhile():
        wait_until(lambda: is_moving(cluster), what="a move")
        late = NewTopic("late", 1, replica_assignment=[[1]])
        admin.create_topics([late])["late"].result(60)
        set_throttle(admin, 3, None)

    with ThreadPoolExecutor(1) as threads:
        meanwhile = threads.submit(create_meanwhile)
        ended = run_headrace("cluster", "decommission", "1", "-b", cluster.address)
        meanwhile.result(120)

    assert ended.code == 1 and "broker 1 still has late-0" in ended.err, ended.err or ended.out
    again = run_headrace("cluster", "decommission", "1", "-b", cluster.address)
    assert (again.code, again.err) == (0, ""), again.out
    wait_until(lambda: replicas_by_broker(cluster).get(1) == 0, what="an empty broker")


@pytest.fixture
def two_racks(tmp_path_factory):
    """Broker 1 on rack a, brokers 2 and 3 on rack b."""
    # No broker is killed: one that seems late means only that the machine is slow.
    patient = {"zookeeper.session.timeout.ms": "30000", "replica.lag.time.max.ms": "30000"}
    cluster = ClusterProcess(tmp_path_factory.mktemp("two-racks"), settings=patient)
    for number, rack in {1: "a", 2: "b", 3: "b"}.items():
        cluster.broker(number).settings["broker.rack"] = rack
    try:
        with cluster:
            yield cluster
    except PeerMissing as missing:
        require_peer(str(missing))


def replicas_of(cluster, name):
    return [each["replicas"] for each in ask(cluster, "partitions", name)]


def test_no_replica_comes_to_stand_beside_one_on_a_broker_that_is_away(two_racks):
    cluster, name = two_racks, "orders"
    admin = AdminClient({"bootstrap.servers": cluster.address})
    orders = NewTopic(name, 4, replica_assignment=[[1, 3]] * 4)
    admin.create_topics([orders])[name].result(30)
    cluster.wait_in_sync(name)
    cluster.broker(3).stop()
    for number in (1, 2):
        wait_until(
            lambda number=number: 3 not in cluster.metadata(name, asked=[number]).brokers,
            what="brokers that know",
        )

    # Broker 2 is empty, and [2, 3] would be both replicas on rack b.
    left = run_headrace("cluster", "rebalance", "-b", cluster.address)
    refused = run_headrace("cluster", "decommission", "1", "-b", cluster.address)

    assert left.code == 0 and "orders-3 (4 in all), which have replicas on broker 3" in left.err
    assert refused.code == 2 and "broker 3, which is not running" in refused.err
    assert replicas_of(cluster, name) == ["1,3"] * 4

    # It is gone for good.
    ask(cluster, "decommission", "3")

    wait_until(lambda: replicas_of(cluster, name) == ["1,2"] * 4, what="replicas on both racks")
    cluster.broker(3).start()
    cluster.wait_in_sync(name)
    ask(cluster, "rebalance")
    wait_until(
        lambda: {"".join(sorted(each)) for each in replicas_of(cluster, name)} == {",12", ",13"},
        what="a share for the broker that is back, on its rack",
    )
