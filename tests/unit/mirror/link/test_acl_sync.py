"""Which rights follow a topic to its mirror."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from headrace.client.error import Unsupported
from headrace.client.network.pool import ConnectionPool
from headrace.mirror.config.flow_settings import FlowSettings
from headrace.mirror.link.acl_sync import (
    LITERAL,
    PREFIXED,
    AclSync,
    TopicAcl,
    mirrored_acls,
    new_acls,
)
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

ALL, READ, WRITE, ALTER, DESCRIBE, DESCRIBE_CONFIGS = 2, 3, 4, 7, 8, 10
DENY, ALLOW = 2, 3
NAMES = {"clicks": "us.clicks", "orders": "us.orders"}


class Cluster:
    """A cluster's entries, which refuses those that it is asked to."""

    def __init__(
        self,
        entries: Iterable[TopicAcl] = (),
        *,
        refuses: Callable[[TopicAcl], bool] = lambda entry: False,
        lacks: ApiKey | None = None,
    ) -> None:
        self.entries = list(entries)
        self._refuses = refuses
        self._lacks = lacks

    @property
    def pool(self) -> ConnectionPool:
        return cast(ConnectionPool, self)

    def on_any(self, call: Callable[[Any], Any]) -> Any:
        return call(self)

    def on_controller(self, call: Callable[[Any], Any], codes: Callable[[Any], Any]) -> Any:
        return call(self)

    def call(self, api: ApiKey, body: Any, *, lowest: int) -> Any:
        if api is self._lacks:
            raise Unsupported(f"the broker does not serve {api.name}")
        if api is ApiKey.CREATE_ACLS:
            return SimpleNamespace(results=[self._create(each) for each in body["creations"]])
        resources = [
            SimpleNamespace(
                resource_name=each.topic,
                pattern_type=each.pattern,
                acls=[
                    SimpleNamespace(
                        principal=each.principal,
                        host=each.host,
                        operation=each.operation,
                        permission_type=each.permission,
                    )
                ],
            )
            for each in self.entries
        ]
        return SimpleNamespace(error_code=ErrorCode.none, error_message=None, resources=resources)

    def _create(self, creation: dict[str, Any]) -> Any:
        new = TopicAcl(
            creation["resource_name"],
            creation["resource_pattern_type"],
            creation["principal"],
            creation["host"],
            creation["operation"],
            creation["permission_type"],
        )
        if self._refuses(new):
            return SimpleNamespace(error_code=ErrorCode.invalid_request, error_message="no")
        self.entries.append(new)
        return SimpleNamespace(error_code=ErrorCode.none, error_message=None)


def syncing(source: Cluster, target: Cluster) -> AclSync:
    flow = cast(FlowSettings, SimpleNamespace(name="us->eu"))
    return AclSync(flow, source.pool, target.pool)


def entry(
    topic: str,
    operation: int,
    permission: int = ALLOW,
    pattern: int = LITERAL,
    user: str = "anna",
) -> TopicAcl:
    return TopicAcl(topic, pattern, f"User:{user}", "*", operation, permission)


def many(topic: str, total: int, permission: int) -> list[TopicAcl]:
    return [entry(topic, READ, permission, user=f"{index:05}") for index in range(total)]


@pytest.mark.parametrize("operation", [READ, DESCRIBE, DESCRIBE_CONFIGS])
@pytest.mark.parametrize("permission", [ALLOW, DENY])
def test_what_reading_needs_follows(operation: int, permission: int) -> None:
    found = mirrored_acls([entry("clicks", operation, permission)], NAMES)

    assert found == {entry("us.clicks", operation, permission)}


@pytest.mark.parametrize("permission", [ALLOW, DENY])
def test_what_changes_a_topic_does_not(permission: int) -> None:
    changing = [code for code in range(13) if code not in (ALL, READ, DESCRIBE, DESCRIBE_CONFIGS)]
    entries = [entry("clicks", code, permission) for code in changing]

    assert mirrored_acls(entries, NAMES) == set()


def test_of_all_the_part_about_reading_follows() -> None:
    assert mirrored_acls([entry("clicks", ALL)], NAMES) == {entry("us.clicks", READ)}
    assert mirrored_acls([entry("clicks", ALL, DENY)], NAMES) == {
        entry("us.clicks", each, DENY) for each in (READ, DESCRIBE, DESCRIBE_CONFIGS)
    }


def test_patterns_become_names_of_mirror_topics() -> None:
    prefix = entry("cli", READ, pattern=PREFIXED)
    everything = entry("*", READ)

    assert mirrored_acls([prefix], NAMES) == {entry("us.clicks", READ)}
    assert mirrored_acls([everything], NAMES) == {
        entry("us.clicks", READ),
        entry("us.orders", READ),
    }
    assert mirrored_acls([entry("other", READ), entry("click", READ)], NAMES) == set()


def test_denials_of_all_topics_are_written_first() -> None:
    source = Cluster(
        [*many("clicks", 700, ALLOW), *many("orders", 700, DENY), entry("orders", DESCRIBE)]
    )
    target = Cluster()

    assert syncing(source, target).sync(NAMES) == 1401
    assert [each.permission for each in target.entries] == [DENY] * 700 + [ALLOW] * 701


def test_a_topic_whose_denial_is_refused_gets_no_allowance() -> None:
    source = Cluster([entry("*", READ), entry("clicks", READ, DENY, user="eve")])
    target = Cluster(refuses=lambda new: new.permission == DENY)

    assert syncing(source, target).sync(NAMES) == 1
    assert target.entries == [entry("us.orders", READ)]


def test_a_refused_entry_does_not_stop_the_others() -> None:
    source = Cluster(many("clicks", 900, ALLOW))
    target = Cluster(refuses=lambda new: new.principal == "User:00003")
    sync = syncing(source, target)

    with capture_logs() as log:
        assert sync.sync(NAMES) == 899
        assert sync.sync(NAMES) == 0
    refused = [each for each in log if each["event"] == "mirror_acls_refused"]
    assert [(each["entries"], each["error"]) for each in refused] == [
        (1, "us.clicks, User:00003: no")
    ]


@pytest.mark.parametrize("lacks", [ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS])
def test_a_cluster_without_entries_is_no_error(lacks: ApiKey) -> None:
    sync = syncing(Cluster([entry("clicks", READ)]), Cluster(lacks=lacks))

    with capture_logs() as log:
        assert [sync.sync(NAMES), sync.sync(NAMES)] == [0, 0]
    assert [each["event"] for each in log] == ["mirror_acls_refused"]


def test_a_source_cannot_fill_the_target() -> None:
    source = Cluster([*many("clicks", 1500, ALLOW), *many("clicks", 10, DENY)])
    target = Cluster()
    sync = syncing(source, target)

    with capture_logs() as log:
        assert sync.sync(NAMES) == 1000
        source.entries = [entry("clicks", READ, user=f"new-{index}") for index in range(1500)]
        assert sync.sync(NAMES) == 0
    assert sum(each.permission == DENY for each in target.entries) == 10
    skipped = [each for each in log if each["event"] == "mirror_acls_skipped"]
    assert [(each["topics"], each["entries"]) for each in skipped] == [(["us.clicks"], 510)]


def test_allowances_never_keep_a_denial_out() -> None:
    full = many("clicks", 3, ALLOW)
    late = entry("clicks", READ, DENY, user="eve")

    assert new_acls([*full, late], full, most=3) == ([late], [], 0)


def test_nothing_is_allowed_where_a_denial_is_left_out() -> None:
    denials = many("clicks", 3, DENY)

    assert new_acls([*denials, entry("clicks", DESCRIBE)], [], most=2) == (denials[:2], [], 2)


def test_each_allowance_is_logged() -> None:
    source = Cluster([entry("clicks", READ), entry("clicks", READ, DENY, user="eve")])

    with capture_logs() as log:
        syncing(source, Cluster()).sync(NAMES)
    allowed = [each for each in log if each["event"] == "mirror_acl_allowed"]
    assert [(each["topic"], each["principal"], each["operation"]) for each in allowed] == [
        ("us.clicks", "User:anna", "Read")
    ]
