"""`headrace land --configured` on three brokers that want a login, while leaders die."""

import re
import signal

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from headrace.testing.readiness import free_port, wait_until
from testkit.fault.cluster_process import ClusterProcess
from testkit.peer.peer import PeerMissing, require_peer
from testkit.sample.configured_lake import ConfiguredLake

pytest.importorskip("deltalake")

PASSWORD = "correct-horse"
TOPIC = "clicks"
KILLS = 2
RECORDS = 400


@pytest.fixture
def secure_cluster(tmp_path_factory):
    """Three brokers: one listener for the test, one with a login for everyone else."""
    users = tmp_path_factory.mktemp("users") / "users"
    users.write_text(f"lander={PASSWORD}\n")
    users.chmod(0o600)
    settings = {
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "headrace.sasl.plain.users.file": str(users),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    cluster = ClusterProcess(tmp_path_factory.mktemp("secure-cluster"), settings=settings)
    for broker in cluster.brokers.values():
        ports = free_port(), free_port()
        broker.settings["listeners"] = (
            f"PLAINTEXT://127.0.0.1:{ports[0]},SASL_PLAINTEXT://127.0.0.1:{ports[1]}"
        )
    try:
        with cluster:
            yield cluster
    except PeerMissing as missing:
        require_peer(str(missing))


def secure_address(cluster):
    texts = [broker.settings["listeners"] for broker in cluster.brokers.values()]
    return ",".join(re.search(r"SASL_PLAINTEXT://(\S+)", text)[1] for text in texts)


def allow(address):
    def binding(kind, name, operation):
        literal, allowed = ResourcePatternType.LITERAL, AclPermissionType.ALLOW
        return AclBinding(kind, name, literal, "User:lander", "*", operation, allowed)

    operations = (AclOperation.READ, AclOperation.DESCRIBE_CONFIGS)
    bindings = [binding(ResourceType.TOPIC, TOPIC, each) for each in operations]
    admin = AdminClient({"bootstrap.servers": address})
    for each in admin.create_acls(bindings).values():
        each.result(90)


def put(producer, values):
    for value in values:
        producer.produce(TOPIC, b'{"id": %d}' % value, partition=value % 2)
    assert producer.flush(120) == 0


def test_a_leader_that_dies_loses_and_doubles_no_row(secure_cluster, tmp_path):
    cluster, log = secure_cluster, tmp_path / "land.log"
    lake = ConfiguredLake(cluster.address, tmp_path)
    table = {"name": "delta:clicks", "freshness.ms": "100"}
    lake.create(TOPIC, table, replicas=3)
    cluster.wait_in_sync(TOPIC)
    allow(cluster.address)
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "lander",
        "sasl.password": PASSWORD,
    }
    words = [word for key, text in login.items() for word in ("-X", f"{key}={text}")]
    producer = Producer(
        {"bootstrap.servers": cluster.address, "enable.idempotence": True, "log_level": 0}
    )
    number = 0
    with lake.landing(log, *words, "-b", secure_address(cluster)) as process:
        for _ in range(KILLS):
            put(producer, range(number, number + RECORDS))
            lake.wait_for("delta:clicks", number + 1, log)  # it lands them, and is not done
            killed = cluster.leader(TOPIC)
            cluster.broker(killed).kill()
            put(producer, range(number + RECORDS, number + 2 * RECORDS))
            number += 2 * RECORDS
            lake.wait_for("delta:clicks", number, log)
            cluster.broker(killed).start()
            cluster.wait_in_sync(TOPIC)
        process.send_signal(signal.SIGTERM)
        wait_until(lambda: process.poll() is not None, what="its end", timeout_seconds=90)

    assert process.returncode == 0, log.read_text()
    assert lake.ids("delta:clicks") == [*range(number)]
    assert PASSWORD not in log.read_text()
