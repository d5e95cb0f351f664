"""`headrace cluster restart` on a `headrace up --brokers auto`, while clients write and read."""

import json
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from headrace.cli.rolling_restart import RollingRestart, min_in_sync
from headrace.cli.supervisor.restart_lock import restart_lock
from headrace.cli.supervisor.supervisor_socket import SupervisorSocket
from headrace.client.admin.replica_admin import ReplicaAdmin
from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.settings import ClientSettings
from headrace.model.ids import TopicPartition
from headrace.process.die_with_parent import die_with_parent
from headrace.process.java import JavaMissing, find_java
from headrace.process.zookeeper import ZooKeeperMissing, zookeeper_jars
from headrace.testing.readiness import free_port, wait_until
from testkit.fault.cluster_process import ClusterProcess
from testkit.peer.peer import PeerMissing, require_peer
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
    again = [sys.executable, "-m", "headrace.cli.main", "up", "--brokers", "auto"]
    second = subprocess.run([*again, "--data", str(data)], capture_output=True, check=False)
    assert second.returncode == 2
    assert f"another headrace up (process {process.pid}) runs in".encode() in second.stderr
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


# A broker ends with the thread that started it: this one stays.
_starter = ThreadPoolExecutor(1)


class FakeSupervisor:
    """Serves what `headrace cluster restart` asks, and restarts the brokers of a `ClusterProcess`.

    Attributes:
        seen: what `look` returned when each broker was asked to restart.
    """

    def __init__(self, cluster, home, look=lambda: None, kills=0):
        self.seen = []
        self._cluster, self._look, self._kills = cluster, look, kills
        self._starts = dict.fromkeys(cluster.brokers, 1)
        self._away = set()
        self._ended = threading.Event()
        self._socket = SupervisorSocket(home)
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *error):
        self._ended.set()
        self._thread.join()
        self._socket.close()

    def _serve(self):
        while not self._ended.is_set():
            self._socket.serve(0.05, self._answer)

    def _answer(self, request):
        match request:
            case {"command": "zookeeper"}:
                return {"settings": {"zookeeper.connect": self._cluster.zookeeper.address}}
            case {"command": "restart", "broker": number}:
                self.seen.append(self._look())
                self._away.add(number)
                _starter.submit(self._restart, number)
        brokers = [
            {
                "id": number,
                "starts": starts,
                "ready": number not in self._away,
                "kills": self._kills * (starts - 1),
            }
            for number, starts in self._starts.items()
        ]
        return {"address": self._cluster.address, "brokers": brokers}

    def _restart(self, number):
        self._cluster.broker(number).stop()
        self._cluster.broker(number).start()
        self._starts[number] += 1
        self._away.discard(number)


def moves(cluster):
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": cluster.address})) as pool:
        return ReplicaAdmin(pool).moves()


def set_throttle(admin, broker, value):
    """Set, or with None remove, how fast a broker copies what catches up."""
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(
        "follower.replication.throttled.rate", value, incremental_operation=operation
    )
    resource = ConfigResource(ResourceType.BROKER, str(broker), incremental_configs=[entry])
    for each in admin.incremental_alter_configs([resource]).values():
        each.result(60)


# No broker is killed: one that seems late means only that the machine is slow.
PATIENT = {"zookeeper.session.timeout.ms": "30000", "replica.lag.time.max.ms": "30000"}


class LostLock:
    def check(self):
        raise ClientError("another restart may have begun")


@pytest.fixture(scope="module")
def whole_cluster(tmp_path_factory):
    """Three brokers for tests that leave them all running, and every replica in sync."""
    cluster = ClusterProcess(tmp_path_factory.mktemp("whole"), settings=PATIENT)
    try:
        with cluster:
            yield cluster
    except PeerMissing as missing:
        require_peer(str(missing))


def test_a_restart_waits_until_no_partition_is_being_moved(whole_cluster, tmp_path):
    settings, moved = {"bootstrap.servers": whole_cluster.address}, TopicPartition("moved", 0)
    admin = AdminClient(settings)
    configs = {"follower.replication.throttled.replicas": "*", "min.insync.replicas": "1"}
    topic = NewTopic("moved", 1, replica_assignment=[[1, 2]], config=configs)
    admin.create_topics([topic])["moved"].result(60)
    producer = Producer({**settings, "log_level": 0, "message.max.bytes": 4_000_000})
    for _ in range(8):  # the first piece goes over the limit, and the others wait
        producer.produce("moved", random.randbytes(1_000_000))
        assert producer.flush(60) == 0
    whole_cluster.wait_in_sync("moved")
    rolling = RollingRestart(tmp_path, settings, 120.0)
    hasty = RollingRestart(tmp_path, settings, 0.0)
    late = RollingRestart(tmp_path, settings, 120.0, lock=LostLock())
    for each in (rolling, hasty, late):
        wait_until(lambda each=each: can_restart(each, 2), what="a whole cluster")
    set_throttle(admin, 3, "1")
    with ConnectionPool(ClientSettings.of(settings)) as pool:
        assert ReplicaAdmin(pool).reassign({moved: [1, 3]}) == {moved: None}

    with pytest.raises(ClientError, match="no broker is restarted: partitions are being moved"):
        RollingRestart(tmp_path, settings, 0.0).check([2])
    with (
        FakeSupervisor(whole_cluster, tmp_path, lambda: moves(whole_cluster)) as supervisor,
        ThreadPoolExecutor() as threads,
    ):
        with pytest.raises(ClientError, match=r"broker 2 is not restarted.*being moved: moved-0"):
            hasty.restart(2)
        waiting = threads.submit(rolling.restart, 2)
        assert supervisor.seen == []

        set_throttle(admin, 3, None)

        assert waiting.result(240)["broker"] == 2
        assert supervisor.seen == [{}]
        with pytest.raises(ClientError, match="another restart may have begun"):
            late.restart(2)
        assert supervisor.seen == [{}]
    assert whole_cluster.metadata("moved").topics["moved"].partitions[0].replicas == (1, 3)


def can_restart(rolling, number):
    try:
        return rolling.check([number]) == [number]
    except ClientError:  # a broker that another test has restarted is not known to all yet
        return False


def test_a_broker_that_had_to_be_killed_is_said_and_ends_the_restart(whole_cluster, tmp_path):
    with ConnectionPool(ClientSettings.of({"bootstrap.servers": whole_cluster.address})) as pool:
        cluster_id = pool.metadata().cluster_id
    (tmp_path / "broker-1").mkdir()
    meta = f"version=1\nnode.id=1\ncluster.id={cluster_id}\n"
    (tmp_path / "broker-1" / "meta.properties").write_text(meta)
    rolling = RollingRestart(tmp_path, {"bootstrap.servers": whole_cluster.address}, 0.0)
    wait_until(lambda: can_restart(rolling, 1), what="a whole cluster")

    with FakeSupervisor(whole_cluster, tmp_path, kills=1) as supervisor:
        done = run_headrace("cluster", "restart", "--data", str(tmp_path), "--hand-over", "60")

    assert done.code == 3, done.err
    assert re.search(r"broker \d did not end within the time of --hand-over", done.err)
    assert "run the command again with --broker" in done.err
    assert len(supervisor.seen) == 1
    assert "1 broker restarted" in done.out


def test_one_restart_at_a_time_goes_on_in_a_cluster(ensemble, tmp_path):
    """From two machines: each has a supervisor of its own, and they share one ZooKeeper."""
    nothing = SimpleNamespace(brokers={}, address="127.0.0.1:1", zookeeper=SimpleNamespace())
    nothing.zookeeper.address = ensemble
    homes = [tmp_path / "m1", tmp_path / "m2"]
    with FakeSupervisor(nothing, homes[0]), FakeSupervisor(nothing, homes[1]):
        with restart_lock(homes[0]) as lock:
            refused = run_headrace("cluster", "restart", "--data", str(homes[1]))
            lock.check()
        with restart_lock(homes[1]) as lock:
            lock.check()
            lock._lock.release()  # as the end of its session does
            with (
                restart_lock(homes[0]),
                pytest.raises(ClientError, match="session with ZooKeeper has ended"),
            ):
                lock.check()

    assert refused.code == 1
    assert "another headrace cluster restart goes on, on machine" in refused.err


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
