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
