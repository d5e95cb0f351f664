"""Records are checked by whichever broker leads: no change of leader lets a wrong one in."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from headrace.testing.readiness import wait_until
from testkit.fault.cluster_process import ClusterProcess
from testkit.peer.peer import PeerMissing, require_peer
from testkit.process.broker_process import BrokerProcess
from testkit.process.registry_client import call
from testkit.process.registry_process import RegistryProcess

RECORD = '{"type":"record","name":"R","fields":[{"name":"x","type":"string"}]}'
TOPIC = "checked"
UNKNOWN_ID = 4_000_000
WAIT_SECONDS = 120.0


@pytest.fixture
def registry(broker: BrokerProcess, tmp_path: Path) -> Iterator[RegistryProcess]:
    """A registry that lives elsewhere, so that it does not fail with the cluster."""
    options = ("--topic", "_schemas-checked", "--group", "checked")
    with RegistryProcess(tmp_path / "registry", broker.address, *options) as process:
        yield process


@pytest.fixture
def checking(registry: RegistryProcess, tmp_path: Path) -> Iterator[ClusterProcess]:
    """Three brokers that ask the registry."""
    settings = {
        "confluent.schema.registry.url": registry.url,
        "auto.create.topics.enable": "false",  # a producer would bring back what was deleted
    }
    try:
        with ClusterProcess(tmp_path / "cluster", settings=settings) as cluster:
            yield cluster
    except PeerMissing as missing:
        require_peer(str(missing))


class Writer:
    """Writes values one after the other, and knows which were acknowledged."""

    def __init__(self, brokers: str, schema_id: int, **more: int) -> None:
        self.acknowledged: list[bytes] = []
        self._head = b"\0" + schema_id.to_bytes(4, "big") + b"\2"
        self._count = 0
        options = {"message.timeout.ms": 60_000, "linger.ms": 0, "log_level": 0}
        own = {name.replace("_", "."): value for name, value in more.items()}
        self._producer = Producer({"bootstrap.servers": brokers, "acks": "all", **options, **own})

    def write(self) -> int | None:
        """Return the code of the answer; None stands for success."""
        value = self._head + b"%06d" % self._count
        self._count += 1
        codes: list[int | None] = []
        self._producer.produce(
            TOPIC,
            value,
            on_delivery=lambda error, _: codes.append(None if error is None else error.code()),
        )
        assert self._producer.flush(WAIT_SECONDS) == 0
        if codes == [None]:
            self.acknowledged.append(value)
        return codes[0]


def create(cluster: ClusterProcess, *, checked: bool) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.address})
    config = {"confluent.value.schema.validation": str(checked).lower()}

    def created() -> bool:
        try:
            admin.create_topics([NewTopic(TOPIC, 1, 3, config=config)])[TOPIC].result(30)
        except KafkaException as refused:  # the last one of the name is not gone yet
            if refused.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise
            return False
        return True

    wait_until(created, what="the topic", timeout_seconds=WAIT_SECONDS)
    cluster.wait_in_sync(TOPIC)


def read_all(cluster: ClusterProcess, count: int) -> list[bytes]:
    """Return the values of the topic, of which there are so many at least."""
    options = {"group.id": "check", "auto.offset.reset": "earliest", "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": cluster.address, **options})
    consumer.subscribe([TOPIC])
    values: list[bytes] = []
    ended = False

    def read() -> bool:
        nonlocal ended
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            values.append(message.value() or b"")
        elif message is not None:
            ended = ended or message.error().code() == KafkaError._PARTITION_EOF
        return ended and len(values) >= count

    wait_until(read, what=f"{count} records", timeout_seconds=WAIT_SECONDS)
    consumer.close()
    return values


def test_a_new_leader_checks_too_and_a_deleted_topic_leaves_nothing_behind(
    checking: ClusterProcess, registry: RegistryProcess
) -> None:
    path = f"/subjects/{TOPIC}-value/versions"
    status, answer = call(registry.url, "POST", path, {"schema": RECORD})
    assert status == 200, answer
    create(checking, checked=True)
    good = Writer(checking.address, answer["id"])
    wrong = Writer(checking.address, UNKNOWN_ID)
    assert (good.write(), wrong.write()) == (None, KafkaError.INVALID_RECORD)

    killed = checking.leader(TOPIC)
    checking.broker(killed).kill()
    assert (good.write(), wrong.write()) == (None, KafkaError.INVALID_RECORD)
    assert checking.leader(TOPIC) != killed
    checking.broker(killed).start()
    checking.wait_in_sync(TOPIC)
    assert (good.write(), wrong.write()) == (None, KafkaError.INVALID_RECORD)
    # With acks=all a write that was repeated may be there twice.
    assert set(read_all(checking, len(good.acknowledged))) == set(good.acknowledged)

    registry.stop()  # a batch that waits for its schema while the topic goes
    # It gives up soon after the topic has gone: it takes one that is gone for one to come.
    unsure = Writer(checking.address, UNKNOWN_ID + 1, topic_metadata_propagation_max_ms=2000)
    with ThreadPoolExecutor(1) as thread:
        answered = thread.submit(unsure.write)
        admin = AdminClient({"bootstrap.servers": checking.address})
        admin.delete_topics([TOPIC])[TOPIC].result(60)
        assert answered.result() is not None
    create(checking, checked=False)
    assert Writer(checking.address, UNKNOWN_ID).write() is None
    assert all(each.running for each in checking.brokers.values())
