"""Mirror topics: brokers copy them from another cluster, with the offsets they have there."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from headrace.client import (
    Admin,
    BrokerError,
    ClientSettings,
    ConfigChange,
    ConfigOperation,
    ConfigResourceType,
    ConnectionPool,
    GroupAdmin,
    NewTopic,
)
from headrace.mirror.config.flow_settings import FlowSettings
from headrace.mirror.link.group_sync import GroupSync
from headrace.mirror.link.link_config import link_configs
from headrace.mirror.link.promotion import Missing, Promotion
from headrace.model.error import InvalidArgument
from headrace.model.ids import TopicPartition as PartitionName
from headrace.testing.quick_settings import QUICK_SETTINGS
from headrace.testing.readiness import wait_until
from headrace.wire.error_code import ErrorCode
from testkit.fault.yarn_flow import secure_broker
from testkit.peer.peer import PeerMissing, require_peer
from testkit.process.broker_process import BrokerProcess

LINK = "east"


@dataclass
class Cluster:
    """A broker, administered over a connection of its own each time: tests kill it."""

    broker: BrokerProcess

    @contextmanager
    def pool(self) -> Iterator[ConnectionPool]:
        with ConnectionPool(ClientSettings.of({"bootstrap.servers": self.broker.address})) as pool:
            yield pool

    @contextmanager
    def admin(self) -> Iterator[Admin]:
        with self.pool() as pool:
            yield Admin(pool)

    def create(self, topic: str, partitions: int = 1, **configs: str) -> None:
        named = {key.replace("_", "."): value for key, value in configs.items()}
        with self.admin() as admin:
            [error] = admin.create_topics([NewTopic(topic, partitions, 1, named)]).values()
        assert error is None, error

    def topic_id(self, topic: str) -> str:
        with self.pool() as pool:
            return str(pool.metadata([topic]).topics[topic].topic_id)

    def configure(self, topic: str, **configs: str) -> None:
        changes = [
            ConfigChange(ConfigOperation.SET, key.replace("_", "."), value)
            for key, value in configs.items()
        ]
        with self.admin() as admin:
            [error] = admin.alter_configs(ConfigResourceType.TOPIC, {topic: changes}).values()
        assert error is None, error

    def link(self, configs: Mapping[str, str]) -> None:
        changes = [ConfigChange(ConfigOperation.SET, *pair) for pair in configs.items()]
        with self.admin() as admin:
            [error] = admin.alter_configs(ConfigResourceType.MIRROR_LINK, {LINK: changes}).values()
        assert error is None, error

    def produce(self, topic: str, values: list[str], **settings: object) -> None:
        producer = Producer({"bootstrap.servers": self.broker.address, **settings})
        for value in values:
            producer.produce(topic, value, key=value)
        assert producer.flush(60) == 0

    def records(
        self, topic: str, partition: int = 0, isolation: str = "read_uncommitted"
    ) -> list[tuple[int, str]]:
        """Return all records, with their offsets."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.address,
                "group.id": "unused",
                "enable.auto.commit": False,
                "isolation.level": isolation,
                "enable.partition.eof": True,
            }
        )
        try:
            consumer.assign([TopicPartition(topic, partition, 0)])
            found = []
            while True:
                message = consumer.poll(60)
                assert message is not None, f"{topic} did not end"
                if message.error() is not None:
                    return found
                found.append((message.offset(), message.value().decode()))
        finally:
            consumer.close()

    def range(self, topic: str, partition: int = 0) -> tuple[int, int]:
        consumer = Consumer({"bootstrap.servers": self.broker.address, "group.id": "unused"})
        try:
            return consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=60)
        finally:
            consumer.close()


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Cluster]]:
    """East, and west with a link to it."""
    brokers = [BrokerProcess(tmp_path_factory.mktemp(name)) for name in ("east", "west")]
    with brokers[0], brokers[1]:
        east, west = Cluster(brokers[0]), Cluster(brokers[1])
        west.link({"bootstrap.servers": east.broker.address})
        yield east, west


def mirror(east: Cluster, west: Cluster, topic: str, partitions: int = 1, **configs: str) -> None:
    """Create the mirror of a topic."""
    west.create(
        topic,
        partitions,
        headrace_mirror_link=LINK,
        headrace_mirror_topic_id=east.topic_id(topic),
        **configs,
    )


def wait_for_copy(east: Cluster, west: Cluster, topic: str, partition: int = 0) -> None:
    end = east.range(topic, partition)[1]
    wait_until(lambda: west.range(topic, partition)[1] == end, what=f"a copy up to {end}")


def test_records_keep_their_offsets(clusters: tuple[Cluster, Cluster], topic: str) -> None:
    east, west = clusters
    east.create(topic, 2)
    east.produce(topic, [str(i) for i in range(500)], **{"compression.type": "zstd"})
    mirror(east, west, topic, 2)
    for partition in (0, 1):
        wait_for_copy(east, west, topic, partition)
    east.produce(topic, [str(i) for i in range(500, 700)])

    for partition in (0, 1):
        wait_for_copy(east, west, topic, partition)
        assert west.records(topic, partition) == east.records(topic, partition)


def test_clients_cannot_write_to_a_mirror(clusters: tuple[Cluster, Cluster], topic: str) -> None:
    east, west = clusters
    east.create(topic)
    mirror(east, west, topic)
    errors = []
    producer = Producer({"bootstrap.servers": west.broker.address, "acks": "all"})
    producer.produce(topic, "x", on_delivery=lambda error, message: errors.append(error))
    producer.flush(60)

    assert [error.name() for error in errors] == ["POLICY_VIOLATION"]
    assert west.range(topic) == (0, 0)


def test_transactions_come_along(clusters: tuple[Cluster, Cluster], topic: str) -> None:
    east, west = clusters
    east.create(topic)
    producer = Producer(
        {"bootstrap.servers": east.broker.address, "transactional.id": f"{topic}-id"}
    )
    producer.init_transactions()
    for number, end in enumerate((producer.commit_transaction, producer.abort_transaction) * 2):
        producer.begin_transaction()
        producer.produce(topic, f"transaction {number}")
        producer.flush(60)
        end()
    mirror(east, west, topic)
    wait_for_copy(east, west, topic)

    committed = west.records(topic, isolation="read_committed")
    assert committed == [(0, "transaction 0"), (4, "transaction 2")]
    assert committed == east.records(topic, isolation="read_committed")


def test_a_mirror_starts_where_its_source_starts(
    clusters: tuple[Cluster, Cluster], topic: str
) -> None:
    east, west = clusters
    east.create(topic)
    east.produce(topic, [str(i) for i in range(100)], **{"batch.num.messages": 10})
    with east.admin() as admin:
        admin.delete_records({PartitionName(topic, 0): 37})
    mirror(east, west, topic)
    wait_for_copy(east, west, topic)

    wait_until(lambda: west.range(topic) == (37, 100), what="the start of the source")
    assert west.records(topic) == east.records(topic)


def test_the_copy_goes_on_after_both_brokers_were_killed(
    clusters: tuple[Cluster, Cluster], topic: str
) -> None:
    east, west = clusters
    east.create(topic)
    east.produce(topic, [str(i) for i in range(1000)])
    mirror(east, west, topic)
    wait_for_copy(east, west, topic)
    for killed in (west, east, west):
        killed.broker.kill()
        killed.broker.start()
        east.produce(topic, [str(i) for i in range(100)])
        wait_for_copy(east, west, topic)

    assert west.records(topic) == east.records(topic)


def test_a_topic_created_again_at_the_source_is_not_copied(
    clusters: tuple[Cluster, Cluster], topic: str
) -> None:
    east, west = clusters
    east.create(topic)
    east.produce(topic, ["old"])
    mirror(east, west, topic)
    wait_for_copy(east, west, topic)
    with east.admin() as admin:
        admin.delete_topics([topic])
    east.create(topic)
    east.produce(topic, ["new", "newer"])

    wait_until(lambda: "was deleted and created again" in west.broker.log, what="a word of it")
    assert west.records(topic) == [(0, "old")]


def test_a_promoted_mirror_is_fenced_and_then_written_to(
    clusters: tuple[Cluster, Cluster], topic: str
) -> None:
    """Both clusters number producers from 0: without a fence the first batch here would be taken
    for a duplicate."""
    east, west = clusters
    east.create(topic)
    east.produce(topic, ["first"], **{"enable.idempotence": True})
    mirror(east, west, topic)
    wait_for_copy(east, west, topic)
    opened = Producer({"bootstrap.servers": east.broker.address, "transactional.id": topic})
    opened.init_transactions()
    opened.begin_transaction()
    opened.produce(topic, "open")
    opened.flush(60)
    wait_for_copy(east, west, topic)
    assert [value for _, value in west.records(topic)] == ["first", "open"]

    with east.pool() as source, west.pool() as target:
        assert Promotion(target, source).run([topic]) == []
    west.produce(topic, ["second"], **{"enable.idempotence": True})
    east.produce(topic, ["too late"])

    committed = west.records(topic, isolation="read_committed")
    assert [value for _, value in committed] == ["first", "second"]


def test_a_promotion_says_what_is_not_here(clusters: tuple[Cluster, Cluster], topic: str) -> None:
    east, west = clusters
    east.create(topic)
    east.produce(topic, ["copied"])
    mirror(east, west, topic)
    wait_for_copy(east, west, topic)
    west.configure(topic, headrace_mirror_state="paused")
    east.produce(topic, ["lost", "lost"])

    with east.pool() as source, west.pool() as target:
        missing = Promotion(target, source).run([topic])
        with pytest.raises(InvalidArgument, match="no mirror is among them"):
            Promotion(target, source).run([topic])

    assert missing == [Missing(PartitionName(topic, 0), 1, 3)]
    assert west.records(topic) == [(0, "copied")]


def test_groups_keep_their_offsets(clusters: tuple[Cluster, Cluster], topic: str) -> None:
    east, west = clusters
    east.create(topic)
    east.produce(topic, [str(i) for i in range(10)])
    mirror(east, west, topic)
    wait_for_copy(east, west, topic)
    partition = PartitionName(topic, 0)
    flow = FlowSettings.of("east", "west", {"groups": f"{topic}-.*"})
    with east.pool() as source, west.pool() as target:
        GroupAdmin(source).commit(f"{topic}-readers", {partition: 4})

        assert GroupSync(flow, source, target).sync({topic: topic}) == 1
        assert GroupSync(flow, source, target).sync({topic: topic}) == 0
        assert GroupAdmin(target).offsets(f"{topic}-readers") == {partition: 4}


def test_a_source_with_tls_and_a_login(
    clusters: tuple[Cluster, Cluster], topic: str, tmp_path: Path
) -> None:
    _, west = clusters
    with ExitStack() as stack:
        try:
            client = stack.enter_context(secure_broker(tmp_path))
        except PeerMissing as missing:
            require_peer(str(missing))
        settings = ClientSettings.of(client)
        producer = Producer(client)
        producer.produce(topic, "secret")
        assert producer.flush(60) == 0
        changes = [ConfigChange(ConfigOperation.SET, *p) for p in link_configs(settings).items()]
        with west.admin() as admin:
            links = {"secured": changes}
            assert admin.alter_configs(ConfigResourceType.MIRROR_LINK, links) == {"secured": None}
            described = admin.describe_configs(ConfigResourceType.MIRROR_LINK, ["secured"])
        with ConnectionPool(settings) as pool:
            topic_id = str(pool.metadata([topic]).topics[topic].topic_id)
        west.create(topic, headrace_mirror_link="secured", headrace_mirror_topic_id=topic_id)

        wait_until(lambda: west.range(topic)[1] == 1, what="a copy")
    assert west.records(topic) == [(0, "secret")]
    entries = described["secured"]
    assert not isinstance(entries, BrokerError)
    assert {each.name: each.value for each in entries}["sasl.password"] is None
    assert "apple" not in west.broker.log


def test_a_source_without_fetch_sessions(
    clusters: tuple[Cluster, Cluster], topic: str, tmp_path: Path
) -> None:
    """As one has it whose sessions are all taken: every fetch names everything."""
    _, west = clusters
    none = {**QUICK_SETTINGS, "max.incremental.fetch.session.cache.slots": "0"}
    with BrokerProcess(tmp_path, none) as broker:
        source = Cluster(broker)
        source.create(topic)
        source.produce(topic, ["a", "b"])
        server = ConfigChange(ConfigOperation.SET, "bootstrap.servers", broker.address)
        with west.admin() as admin:
            links = {"sessionless": [server]}
            assert set(admin.alter_configs(ConfigResourceType.MIRROR_LINK, links).values()) == {
                None
            }
        west.create(topic, headrace_mirror_link="sessionless")

        wait_until(lambda: west.range(topic)[1] == 2, what="a copy")
        with west.admin() as admin:
            gone = {"sessionless": [ConfigChange(ConfigOperation.DELETE, "bootstrap.servers")]}
            assert set(admin.alter_configs(ConfigResourceType.MIRROR_LINK, gone).values()) == {None}
        wait_until(lambda: "mirror_link_missing" in west.broker.log, what="the link's end")
        source.produce(topic, ["c"])
    assert [value for _, value in west.records(topic)] == ["a", "b"]


def test_a_password_is_not_sent_to_another_server(clusters: tuple[Cluster, Cluster]) -> None:
    _, west = clusters

    def alter(**configs: str) -> ErrorCode:
        changes = [
            ConfigChange(ConfigOperation.SET, key.replace("_", "."), value)
            for key, value in configs.items()
        ]
        with west.admin() as admin:
            [error] = admin.alter_configs(
                ConfigResourceType.MIRROR_LINK, {"hidden": changes}
            ).values()
        return ErrorCode.none if error is None else error.code

    login = {"sasl_username": "anna", "sasl_password": "apple"}
    protocol = {"security_protocol": "SASL_PLAINTEXT"}
    assert alter(bootstrap_servers="a:1", **protocol, **login) is ErrorCode.none
    assert alter(bootstrap_servers="b:1") is ErrorCode.invalid_config
    assert alter(bootstrap_servers="b:1", **login) is ErrorCode.none
