"""Rights to read follow a topic to its mirror; rights to write do not."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from headrace.testing.quick_settings import QUICK_SETTINGS
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.process.member import create_topic
from testkit.process.mirror_process import MirrorProcess

GUARDED = {
    **QUICK_SETTINGS,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture
def clusters(tmp_path: Path) -> Iterator[dict[str, str]]:
    with (
        BrokerProcess(tmp_path / "east", GUARDED) as east,
        BrokerProcess(tmp_path / "west", GUARDED) as west,
    ):
        yield {"east": east.address, "west": west.address}


def entry(name: str, pattern: ResourcePatternType, operation: AclOperation) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC, name, pattern, "User:anna", "*", operation, AclPermissionType.ALLOW
    )


def entries(address: str) -> set[AclBinding]:
    admin = AdminClient({"bootstrap.servers": address})
    found = admin.describe_acls(
        AclBindingFilter(
            ResourceType.ANY,
            None,
            ResourcePatternType.ANY,
            None,
            None,
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
    )
    return set(found.result(60))


def test_rights_to_read_follow(tmp_path: Path, clusters: dict[str, str]) -> None:
    literal, prefixed = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
    create_topic(clusters["east"], "clicks", 1)
    create_topic(clusters["east"], "other", 1)
    admin = AdminClient({"bootstrap.servers": clusters["east"]})
    created = admin.create_acls(
        [
            entry("cl", prefixed, AclOperation.READ),
            entry("clicks", literal, AclOperation.WRITE),
            entry("clicks", literal, AclOperation.DESCRIBE_CONFIGS),
            entry("other", literal, AclOperation.READ),
        ]
    )
    for each in created.values():
        each.result(60)
    settings = {
        "east->west.enabled": "true",
        "east->west.headrace.copied.by": "brokers",
        "east->west.topics": "clicks",
        "sync.topic.acls.interval.seconds": "1",
    }

    with MirrorProcess(tmp_path / "mirror", clusters, settings) as running:
        wait_until(lambda: "mirror_acls_written" in running.log, what="the entries")

    assert entries(clusters["west"]) == {
        entry("east.clicks", literal, AclOperation.READ),
        entry("east.clicks", literal, AclOperation.DESCRIBE_CONFIGS),
    }


def test_rights_come_with_a_new_topic(tmp_path: Path, clusters: dict[str, str]) -> None:
    literal = ResourcePatternType.LITERAL
    create_topic(clusters["east"], "clicks", 1)
    admin = AdminClient({"bootstrap.servers": clusters["east"]})
    rights = [entry(name, literal, AclOperation.READ) for name in ("clicks", "later")]
    for each in admin.create_acls(rights).values():
        each.result(60)
    settings = {
        "east->west.enabled": "true",
        "east->west.headrace.copied.by": "brokers",
        "east->west.topics": "clicks, later",
        "sync.topic.acls.interval.seconds": "3600",
    }

    with MirrorProcess(tmp_path / "mirror", clusters, settings) as running:
        wait_until(lambda: "mirror_acls_written" in running.log, what="the first entry")
        create_topic(clusters["east"], "later", 1)
        wait_until(lambda: running.log.count("mirror_acls_written") == 2, what="the second entry")

    assert entries(clusters["west"]) == {
        entry("east.clicks", literal, AclOperation.READ),
        entry("east.later", literal, AclOperation.READ),
    }


def test_rights_of_another_topic_do_not_follow(tmp_path: Path, clusters: dict[str, str]) -> None:
    literal = ResourcePatternType.LITERAL
    create_topic(clusters["east"], "clicks", 1)
    settings = {
        "east->west.enabled": "true",
        "east->west.headrace.copied.by": "brokers",
        "east->west.topics": "clicks",
        "sync.topic.acls.interval.seconds": "1",
    }
    admin = AdminClient({"bootstrap.servers": clusters["east"]})
    with MirrorProcess(tmp_path / "first", clusters, settings) as running:
        wait_until(lambda: "mirror_topic_created" in running.log, what="the mirror topic")
    for each in admin.delete_topics(["clicks"]).values():
        each.result(60)
    wait_until(lambda: "clicks" not in admin.list_topics(timeout=60).topics, what="the topic's end")
    create_topic(clusters["east"], "clicks", 1)
    create_topic(clusters["east"], "orders", 1)
    rights = [entry(name, literal, AclOperation.READ) for name in ("clicks", "orders")]
    for each in admin.create_acls(rights).values():
        each.result(60)

    settings["east->west.topics"] = "clicks, orders"
    with MirrorProcess(tmp_path / "second", clusters, settings) as running:
        wait_until(lambda: "mirror_acls_written" in running.log, what="the entry of orders")
        assert "created again" in running.log

    assert entries(clusters["west"]) == {entry("east.orders", literal, AclOperation.READ)}
