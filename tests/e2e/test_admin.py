"""Administration by stock clients: topics, configurations, the cluster, log directories."""

import re
import warnings
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from headrace.testing.readiness import wait_until
from testkit.peer.kafka_tool import KafkaTool, KafkaTools
from testkit.process.broker_process import BrokerProcess

SET, DELETE = AlterConfigOpType.SET, AlterConfigOpType.DELETE
APPEND, SUBTRACT = AlterConfigOpType.APPEND, AlterConfigOpType.SUBTRACT


@pytest.fixture
def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.address})


def create(admin: AdminClient, topic: str, partitions: int = 1, **configs: str) -> None:
    named = {key.replace("_", "."): value for key, value in configs.items()}
    admin.create_topics([NewTopic(topic, partitions, 1, config=named)])[topic].result(90)


def describe(admin: AdminClient, kind: str, name: str) -> dict[str, Any]:
    resource = ConfigResource(kind, name)
    found: dict[str, Any] = admin.describe_configs([resource])[resource].result(90)
    return found


def alter(admin: AdminClient, kind: str, name: str, *changes: tuple[Any, str, str | None]) -> None:
    entries = [
        ConfigEntry(key, value, incremental_operation=operation)
        for operation, key, value in changes
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    admin.incremental_alter_configs([resource])[resource].result(90)


def refusal(attempt: Any) -> KafkaError:
    with pytest.raises(KafkaException) as failed:
        attempt()
    error: KafkaError = failed.value.args[0]
    return error


# -- topics


def test_a_topic_is_deleted_with_its_files(
    broker: BrokerProcess, admin: AdminClient, topic: str
) -> None:
    create(admin, topic)

    admin.delete_topics([topic])[topic].result(90)

    assert topic not in admin.list_topics(timeout=60).topics
    wait_until(lambda: not (broker.data / f"{topic}-0").exists(), what="the folder's removal")


def test_a_deleted_topic_can_be_created_again_and_is_empty(
    broker: BrokerProcess, admin: AdminClient, topic: str
) -> None:
    create(admin, topic)
    producer = Producer({"bootstrap.servers": broker.address})
    producer.produce(topic, b"old")
    assert producer.flush(90) == 0
    first = admin.describe_topics(TopicCollection([topic]))[topic].result(90).topic_id

    admin.delete_topics([topic])[topic].result(90)
    create(admin, topic)

    second = admin.describe_topics(TopicCollection([topic]))[topic].result(90).topic_id
    assert str(first) != str(second)
    where = TopicPartition(topic, 0)
    assert admin.list_offsets({where: OffsetSpec.latest()})[where].result(90).offset == 0


def test_a_topic_that_is_not_there_cannot_be_deleted(admin: AdminClient, topic: str) -> None:
    error = refusal(lambda: admin.delete_topics([topic])[topic].result(90))

    assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_a_topic_grows_and_its_new_partitions_are_written_to(
    broker: BrokerProcess, admin: AdminClient, topic: str
) -> None:
    create(admin, topic)

    admin.create_partitions([NewPartitions(topic, 3)])[topic].result(90)

    producer = Producer({"bootstrap.servers": broker.address})
    landed: list[int] = []
    for partition in range(3):
        producer.produce(
            topic, b"x", partition=partition, on_delivery=lambda _, m: landed.append(m.partition())
        )
    assert producer.flush(90) == 0
    assert sorted(landed) == [0, 1, 2]


def test_a_topic_does_not_shrink(admin: AdminClient, topic: str) -> None:
    create(admin, topic, 3)

    error = refusal(lambda: admin.create_partitions([NewPartitions(topic, 2)])[topic].result(90))

    assert error.code() == KafkaError.INVALID_PARTITIONS


def test_validation_alone_changes_nothing(
    broker: BrokerProcess, admin: AdminClient, topic: str
) -> None:
    admin.create_topics([NewTopic(topic, 1, 1)], validate_only=True)[topic].result(90)
    assert topic not in admin.list_topics(timeout=60).topics
    assert not (broker.data / f"{topic}-0").exists()

    create(admin, topic)
    admin.create_partitions([NewPartitions(topic, 4)], validate_only=True)[topic].result(90)
    assert len(admin.list_topics(topic, timeout=60).topics[topic].partitions) == 1


# -- configurations of topics


def test_a_topic_tells_its_own_and_its_default_configs(admin: AdminClient, topic: str) -> None:
    create(admin, topic, retention_ms="1000")

    found = describe(admin, "topic", topic)

    assert found["retention.ms"].value == "1000"
    assert found["retention.ms"].source == 1  # DYNAMIC_TOPIC_CONFIG
    assert found["retention.ms"].synonyms.keys() == {"retention.ms", "log.retention.ms"}
    assert found["segment.bytes"].value == "1073741824"
    assert found["segment.bytes"].source == 5  # DEFAULT_CONFIG
    assert not found["segment.bytes"].is_read_only


def test_configs_change_one_by_one(admin: AdminClient, topic: str) -> None:
    create(admin, topic, retention_ms="1000", segment_bytes="2000000")

    alter(
        admin,
        "topic",
        topic,
        (DELETE, "retention.ms", None),
        (SET, "max.message.bytes", "5000"),
        (APPEND, "cleanup.policy", "compact"),
    )
    found = describe(admin, "topic", topic)
    assert found["retention.ms"].value == "604800000"
    assert found["segment.bytes"].value == "2000000"
    assert found["max.message.bytes"].value == "5000"
    assert found["cleanup.policy"].value == "delete,compact"

    alter(admin, "topic", topic, (SUBTRACT, "cleanup.policy", "delete"))
    assert describe(admin, "topic", topic)["cleanup.policy"].value == "compact"


def test_a_changed_config_takes_effect_at_once(
    broker: BrokerProcess, admin: AdminClient, topic: str
) -> None:
    create(admin, topic)
    alter(admin, "topic", topic, (SET, "max.message.bytes", "500"))

    producer = Producer({"bootstrap.servers": broker.address})
    failures: list[KafkaError | None] = []
    producer.produce(topic, b"x" * 1000, on_delivery=lambda error, _: failures.append(error))
    producer.flush(90)

    assert failures[0] is not None
    assert failures[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


@pytest.mark.parametrize(
    ("key", "value"),
    [("retention.ms", "soon"), ("no.such.key", "1"), ("segment.bytes", "-7")],
)
def test_a_bad_config_is_refused_and_nothing_changes(
    admin: AdminClient, topic: str, key: str, value: str
) -> None:
    create(admin, topic)

    error = refusal(
        lambda: alter(admin, "topic", topic, (SET, key, value), (SET, "max.message.bytes", "5000"))
    )

    assert error.code() == KafkaError.INVALID_CONFIG
    assert key in error.str()
    assert describe(admin, "topic", topic)["max.message.bytes"].source == 5


def test_configs_of_a_missing_topic_are_not_found(admin: AdminClient, topic: str) -> None:
    error = refusal(lambda: describe(admin, "topic", topic))

    assert error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


# -- configurations of brokers


def test_a_broker_tells_all_its_configs(admin: AdminClient) -> None:
    found = describe(admin, "broker", "1")

    assert found["num.partitions"].value == "1"
    assert found["offsets.topic.num.partitions"].source == 4  # STATIC_BROKER_CONFIG
    assert found["log.dirs"].is_read_only
    assert not found["log.retention.ms"].is_read_only


@pytest.mark.interop
def test_a_dynamic_config_takes_effect_and_outlives_a_restart(
    own_broker: BrokerProcess, kafka_tools: KafkaTools
) -> None:
    own_broker.start()
    admin = AdminClient({"bootstrap.servers": own_broker.address})
    create(admin, "before")
    # librdkafka cannot name all brokers at once.
    kafka_tools.run(
        KafkaTool.CONFIGS,
        *("--bootstrap-server", own_broker.address, "--alter", "--entity-type", "brokers"),
        *("--entity-default", "--add-config", "num.partitions=5,log.retention.ms=7000"),
    ).checked()
    alter(admin, "broker", "1", (SET, "num.partitions", "6"))

    def check() -> None:
        found = describe(admin, "broker", "1")
        assert (found["num.partitions"].value, found["num.partitions"].source) == ("6", 2)
        assert (found["log.retention.ms"].value, found["log.retention.ms"].source) == ("7000", 3)
        assert describe(admin, "topic", "before")["retention.ms"].value == "7000"

    check()
    admin.create_topics([NewTopic("six", -1, 1)])["six"].result(90)
    assert len(admin.list_topics("six", timeout=60).topics["six"].partitions) == 6

    own_broker.stop()
    own_broker.start()
    check()
    admin.create_topics([NewTopic("again", -1, 1)])["again"].result(90)
    assert len(admin.list_topics("again", timeout=60).topics["again"].partitions) == 6


def test_what_needs_a_restart_is_not_changed_while_the_broker_runs(admin: AdminClient) -> None:
    error = refusal(lambda: alter(admin, "broker", "1", (SET, "log.dirs", "/elsewhere")))

    assert error.code() == KafkaError.INVALID_REQUEST
    assert "log.dirs" in error.str()


# -- the cluster


def test_the_cluster_is_described(broker: BrokerProcess, admin: AdminClient) -> None:
    found = admin.describe_cluster(include_authorized_operations=True).result(90)

    assert len(found.cluster_id) == 22
    assert [f"{node.host}:{node.port}" for node in found.nodes] == [broker.address]
    assert found.controller.id == 1
    assert {each.name for each in found.authorized_operations} >= {"ALTER", "DESCRIBE", "CREATE"}


def kafka_python_admin(address: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka.admin import KafkaAdminClient

        return KafkaAdminClient(bootstrap_servers=address)


def test_kafka_python_administers(broker: BrokerProcess, topic: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        admin = kafka_python_admin(broker.address)
        try:
            admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 1}})
            described = admin.describe_topics([topic])
            dirs = admin.describe_log_dirs()
            admin.delete_topics([topic])
            left = admin.list_topics()
        finally:
            admin.close()

    assert len(described[0]["partitions"]) == 2
    assert topic in str(dirs)
    assert topic not in left


# -- Kafka's own tools


@pytest.mark.interop
def test_kafka_topics_tool(broker: BrokerProcess, topic: str, kafka_tools: KafkaTools) -> None:
    server = ("--bootstrap-server", broker.address)

    def run(*arguments: str) -> str:
        return kafka_tools.run(KafkaTool.TOPICS, *server, *arguments).checked().stdout

    run("--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=5000")
    run("--alter", "--topic", topic, "--partitions", "4")
    described = run("--describe", "--topic", topic)

    assert re.search(r"PartitionCount: 4\s+ReplicationFactor: 1\s+.*retention.ms=5000", described)
    assert described.count("Leader: 1") == 4


@pytest.mark.interop
def test_kafka_configs_tool(
    broker: BrokerProcess, admin: AdminClient, topic: str, kafka_tools: KafkaTools
) -> None:
    create(admin, topic, retention_ms="4000")
    server = ("--bootstrap-server", broker.address)
    entity = ("--entity-type", "topics", "--entity-name", topic)

    def run(*arguments: str) -> str:
        return kafka_tools.run(KafkaTool.CONFIGS, *server, *arguments).checked().stdout

    change = ("--add-config", "cleanup.policy=[compact,delete]", "--delete-config", "retention.ms")
    run("--alter", *entity, *change)
    described = run("--describe", *entity)
    brokers = run("--describe", "--all", "--entity-type", "brokers", "--entity-name", "1")

    assert "cleanup.policy=compact,delete" in described
    assert "retention.ms" not in described
    assert "num.partitions=1" in brokers


@pytest.mark.interop
def test_kafka_tools_for_the_cluster(broker: BrokerProcess, kafka_tools: KafkaTools) -> None:
    server = ("--bootstrap-server", broker.address)

    features = kafka_tools.run(KafkaTool.FEATURES, *server, "describe").checked().stdout
    release = ("upgrade", "--release-version", "4.2")
    upgraded = kafka_tools.run(KafkaTool.FEATURES, *server, *release).checked().stdout
    dirs = kafka_tools.run(KafkaTool.LOG_DIRS, *server, "--describe").checked().stdout
    cluster = kafka_tools.run(KafkaTool.CLUSTER, "cluster-id", *server).checked().stdout

    assert re.search(r"group.version.*FinalizedVersionLevel: 1", features)
    assert re.search(r"transaction.version.*FinalizedVersionLevel: 2", features)
    assert "group.version was upgraded to 1" in upgraded
    assert '"logDirs"' in dirs
    assert "Cluster ID: " in cluster
