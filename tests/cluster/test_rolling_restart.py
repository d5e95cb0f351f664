"""`headrace cluster restart` on a `headrace up --brokers auto`, while clients write and read."""

import json
import re
import signal
import socket
import subprocess
import sys
import threading

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.cli.cluster_restart import RollingRestart, min_in_sync
from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.process.die_with_parent import die_with_parent
from headrace.process.java import JavaMissing, find_java
from headrace.process.zookeeper import ZooKeeperMissing, zookeeper_jars
from headrace.testing.readiness import free_port, wait_until
from testkit.peer.peer import require_peer
from testkit.process.command_line import run_headrace

_SERVES = re.compile(r"Headrace serves (\d) brokers on (\S+)")
_MOST_BROKERS = 4
_PARTITIONS = 6


def first_port():
    """A free port with one free below, for ZooKeeper, and enough above it."""
    while True:
        port = free_port()
        try:
            for each in (port - 1, *range(port + 1, port + _MOST_BROKERS)):
                socket.create_server(("127.0.0.1", each)).close()
        except OSError:
            continue
        return port


@pytest.fixture
def machine(tmp_path):
    """The data directory, the address of the brokers, the process and its output."""
    try:
        find_java()
        zookeeper_jars()
    except (ZooKeeperMissing, JavaMissing) as missing:
        require_peer(str(missing))
    data = tmp_path / "data"
    for number in (1, 2, 3):  # auto starts three brokers at least
        (data / f"broker-{number}").mkdir(parents=True)
    output = tmp_path / "output"
    with output.open("wb") as out:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "headrace.cli.main", "up", "--brokers", "auto"),
                *("--data", str(data), "--listen", f"127.0.0.1:{first_port()}"),
                *("-X", "min.insync.replicas=2", "-X", "offsets.topic.num.partitions=3"),
            ],
            stdout=out,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,
        )
    try:
        wait_until(
            lambda: _SERVES.search(output.read_text()) or process.poll() is not None,
            what="the brokers",
            timeout_seconds=180,
        )
        found = _SERVES.search(output.read_text())
        assert found is not None, output.read_text()
        yield data, found[2], process, output
    finally:
        process.kill()
        process.wait()


class Writer(threading.Thread):
    """An idempotent producer that goes on until it is stopped."""

    def __init__(self, address, topic):
        super().__init__(daemon=True)
        self.ended = threading.Event()
        self.sent = 0
        self.failed = []
        self.acknowledged = 0
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "linger.ms": 5,
                "log_level": 0,
            }
        )

    def run(self):
        while not self.ended.wait(0.002):
            self._producer.produce(
                self._topic,
                str(self.sent),
                partition=self.sent % _PARTITIONS,
                on_delivery=self._delivered,
            )
            self.sent += 1
            self._producer.poll(0)
        assert self._producer.flush(120) == 0

    def _delivered(self, error, message):
        if error is None:
            self.acknowledged += 1
        else:
            self.failed.append(str(error))


class Reader(threading.Thread):
    """A member of a group, which begins at the start."""

    def __init__(self, address, topic):
        super().__init__(daemon=True)
        self.ended = threading.Event()
        self.values = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": "readers",
                "auto.offset.reset": "earliest",
                "log_level": 0,
            }
        )
        self._consumer.subscribe([topic])

    def run(self):
        while not self.ended.is_set():
            for message in self._consumer.consume(500, timeout=0.2):
                if message.error() is None:
                    self.values.append((message.partition(), int(message.value())))
        self._consumer.close()


def test_all_brokers_are_restarted_while_records_are_written_and_read(machine):
    data, address, process, output = machine
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic("alone", 1, 1)])["alone"].result(60)

    refused = run_headrace("cluster", "restart", "--data", str(data))

    assert refused.code == 1
    assert "alone-0 could not be written to meanwhile" in refused.err
    assert "is restarted" not in output.read_text()
    admin.delete_topics(["alone"])["alone"].result(60)
    admin.create_topics([NewTopic("orders", _PARTITIONS, 3)])["orders"].result(60)
    writer, reader = Writer(address, "orders"), Reader(address, "orders")
    writer.start()
    reader.start()
    wait_until(lambda: len(reader.values) > 100, what="records that are read")
    # The topics of the group and of producer ids are there by now, and whole.
    wait_until(
        lambda: run_headrace("cluster", "health", "-b", address).code == 0, what="good health"
    )

    done = run_headrace("cluster", "restart", "--data", str(data), "--format", "json")

    assert done.code == 0, done.err + output.read_text()
    restarted = sorted(each["broker"] for each in json.loads(done.out))
    assert restarted == list(range(1, address.count(":") + 1)) and len(restarted) >= 3
    for number in restarted:
        assert f"broker {number} ended with 0: it is restarted" in output.read_text()
    at_end = writer.acknowledged
    wait_until(lambda: writer.acknowledged > at_end + 100, what="records after the restart")
    writer.ended.set()
    writer.join(180)
    assert writer.failed == [] and writer.acknowledged == writer.sent
    wait_until(lambda: len(set(reader.values)) >= writer.sent, what="all records to be read")
    reader.ended.set()
    reader.join(60)
    assert stored(address) == {
        index: list(range(index, writer.sent, _PARTITIONS)) for index in range(_PARTITIONS)
    }
    assert set(reader.values) == {(each % _PARTITIONS, each) for each in range(writer.sent)}
    wait_until(lambda: leaders(admin) == set(restarted), what="leaders on all brokers")
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert not (data / "supervisor.sock").exists()


def test_no_broker_is_restarted_while_a_replica_is_away(own_cluster, tmp_path):
    admin = AdminClient({"bootstrap.servers": own_cluster.address})
    admin.create_topics([NewTopic("orders", 1, 3)])["orders"].result(60)
    own_cluster.wait_in_sync("orders")
    rolling = RollingRestart(tmp_path, {"bootstrap.servers": own_cluster.address}, 0.0)
    assert sorted(rolling.check([1, 2, 3])) == [1, 2, 3]

    own_cluster.broker(3).stop()

    # This one still expects three brokers; the next one finds two, and a replica that is missing.
    with pytest.raises(ClientError, match="serves again, but the cluster is not whole after 0 s"):
        rolling._wait(rolling._problem, "it serves again, but the cluster is not whole")
    for number in (1, 2):
        wait_until(
            lambda number=number: is_under_replicated(own_cluster, number),
            what=f"broker {number} to know",
        )
    settings = {"bootstrap.servers": own_cluster.address}
    with pytest.raises(ClientError, match=r"no broker is restarted: under replicated .*orders-0"):
        RollingRestart(tmp_path, settings, 0.0).check([1])


def test_no_broker_is_restarted_for_another_cluster_or_without_zookeeper(own_cluster, tmp_path):
    settings = {"bootstrap.servers": own_cluster.address}
    rolling = RollingRestart(tmp_path, settings, 0.0)
    assert sorted(rolling.check([1, 2, 3])) == [1, 2, 3]

    with ConnectionPool(ClientSettings.of(settings)) as pool:  # a topic that was deleted
        assert min_in_sync(pool, ["gone"]) == {}
    elsewhere = RollingRestart(tmp_path, settings, 0.0, cluster_id="ours")
    with pytest.raises(ClientError, match=r"belong to cluster ours, and .* leave -b out"):
        elsewhere.check([1])

    own_cluster.zookeeper.kill()

    # Until its session ends a broker answers as if nothing were wrong; after that it hangs up.
    with pytest.raises(ClientError, match=r"no broker is restarted: broker 1 does not"):
        rolling.check([1])


def is_under_replicated(cluster, asked):
    found = cluster.metadata("orders", asked=[asked])
    return 3 not in found.brokers and found.topics["orders"].partitions[0].under_replicated


def leaders(admin):
    partitions = admin.list_topics("orders", 30).topics["orders"].partitions
    return {each.leader for each in partitions.values()}


def stored(address):
    """What the partitions of `orders` hold, in order: a record that is twice in the log counts."""
    found = {index: [] for index in range(_PARTITIONS)}
    done = run_headrace(
        *("topic", "consume", "orders", "-o", ":end", "-b", address, "-f", "%p %v\\n")
    )
    assert done.code == 0, done.err
    for line in done.out.splitlines():
        partition, value = map(int, line.split())
        found[partition].append(value)
    return found
