"""Real processes, killed while clients write and read: nothing is lost, doubled or changed."""

import os
import signal

from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.broker.replica.replica_roles import PARTITIONS_PER_SLICE
from headrace.testing.readiness import wait_until
from testkit.fault.chaos import Chaos
from testkit.fault.workload import Workload

PARTITIONS = 3
WAIT_SECONDS = 90


def acknowledged_more(workload, cluster):
    """Wait until records that are sent from now on have been, by every partition."""
    goes_on = workload.goes_on(15)
    try:
        # A client that failed says more than the records that it does not send any more.
        wait_until(
            lambda: workload.failures != [] or goes_on(),
            what="acknowledged records",
            timeout_seconds=WAIT_SECONDS,
        )
    except TimeoutError as late:
        raise TimeoutError(f"{late}; {workload}; {cluster.last_log_lines()}") from None
    assert workload.failures == []


def assert_sound(workload, cluster, topic):
    cluster.wait_in_sync(topic)
    assert workload.failures == []
    assert workload.acknowledged == workload.sent
    assert workload.history.check(workload.read_all()) == []


def test_a_killed_leader_and_a_killed_zookeeper_lose_nothing(cluster, topic):
    workload = Workload(cluster.address, topic, PARTITIONS)
    with workload.running():
        acknowledged_more(workload, cluster)

        # Two of three must be in sync when one is gone, and a slow machine may be behind.
        cluster.wait_in_sync(topic)
        killed = cluster.leader(topic)
        cluster.broker(killed).kill()
        acknowledged_more(workload, cluster)
        cluster.broker(killed).start()
        cluster.wait_in_sync(topic)

        cluster.zookeeper.kill()
        acknowledged_more(workload, cluster)
        cluster.zookeeper.start()
        acknowledged_more(workload, cluster)

    assert_sound(workload, cluster, topic)


def test_a_rolling_restart_reaches_no_application(cluster, topic):
    """Stock clients under load, one broker after the other: no error, nothing lost or doubled."""
    workload = Workload(cluster.address, topic, PARTITIONS)
    with workload.running():
        acknowledged_more(workload, cluster)
        for broker in cluster.brokers.values():
            broker.stop()
            broker.start()
            cluster.wait_in_sync(topic)
        acknowledged_more(workload, cluster)

    assert_sound(workload, cluster, topic)


def test_a_leader_that_slept_past_its_session_leads_no_more(cluster, topic):
    workload = Workload(cluster.address, topic, PARTITIONS)
    with workload.running():
        acknowledged_more(workload, cluster)
        cluster.wait_in_sync(topic)
        asleep = cluster.leader(topic)
        pid = cluster.broker(asleep).pid
        os.kill(pid, signal.SIGSTOP)
        try:
            others = [each for each in cluster.brokers if each != asleep]
            wait_until(
                lambda: cluster.leader(topic, asked=others) in others,
                what="another leader",
                timeout_seconds=WAIT_SECONDS,
            )
        finally:
            os.kill(pid, signal.SIGCONT)
        acknowledged_more(workload, cluster)

    assert_sound(workload, cluster, topic)


def test_what_a_leader_takes_while_it_is_cut_off_vanishes_and_its_clients_go_elsewhere(
    cluster, topic
):
    chaos = Chaos(cluster, topic, PARTITIONS, seed=7)
    kinds = ("leader cut off from brokers and ZooKeeper", "two brokers cut off from each other")

    report = chaos.run_all(kinds)

    assert report.failures == []
    assert report.anomalies == []
    assert report.acknowledged == report.sent


def test_a_topic_that_changes_its_leaders_in_slices_loses_and_doubles_nothing(cluster, topic):
    """`topic` is not used but for what it waits for: three brokers that are running."""
    partitions = 3 * PARTITIONS_PER_SLICE
    admin = AdminClient({"bootstrap.servers": cluster.address})
    admin.create_topics([NewTopic("slices", partitions, 3)])["slices"].result(WAIT_SECONDS)
    cluster.wait_in_sync("slices")
    failures = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.address,
            "acks": "all",
            "enable.idempotence": True,
            "on_delivery": lambda error, _: failures.append(error) if error else None,
        }
    )

    def send(numbers):
        for number in numbers:
            producer.produce("slices", str(number), partition=number % partitions)
        assert producer.flush(WAIT_SECONDS) == 0

    send(range(1000))
    killed = cluster.leader("slices")
    cluster.broker(killed).kill()
    send(range(1000, 3000))
    cluster.broker(killed).start()
    cluster.wait_in_sync("slices")
    send(range(3000, 4000))

    assert failures == []
    assert sorted(map(int, read_all(cluster.address, "slices", partitions, 4000))) == [*range(4000)]


def read_all(address, topic, partitions, count):
    """Return the values of all records, when as many have come as are expected."""
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": topic, "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)])
    values = []

    def all_read():
        values.extend(each.value() for each in consumer.consume(1000, 0.5) if not each.error())
        return len(values) >= count

    try:
        wait_until(all_read, what=f"{count} records", timeout_seconds=WAIT_SECONDS)
    finally:
        consumer.close()
    return values
