"""Who may do what: each rule of the authorizer."""

from types import SimpleNamespace

import pytest
import structlog

from headrace.broker.auth.authorizer import Authorizer, all_operations, parse_principals
from headrace.broker.auth.resource import CLUSTER_NAME, Operation, ResourceType
from headrace.cluster.acl import Acl

HOST = "10.0.0.7"
ANNA = "User:anna"


def acl(
    operation: str = "read",
    name: str = "orders",
    *,
    permission: str = "allow",
    principal: str = ANNA,
    host: str = "*",
    pattern: str = "literal",
    resource: str = "topic",
) -> Acl:
    return Acl(
        resource_type=resource,
        resource_name=name,
        pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission=permission,
    )


def authorizer(*acls: Acl, super_users: tuple[str, ...] = (), everyone: bool = False) -> Authorizer:
    rules = Authorizer(super_users, open_without_acl=everyone)
    rules.set_acls(acls)
    return rules


def may(
    rules: Authorizer,
    operation: Operation = Operation.READ,
    name: str = "orders",
    *,
    principal: str = ANNA,
    host: str = HOST,
) -> bool:
    return rules.allows(principal, host, operation, ResourceType.TOPIC, name)


def test_without_entries_everything_is_closed() -> None:
    assert not may(authorizer())


def test_without_entries_everything_is_open_if_the_broker_says_so() -> None:
    assert may(authorizer(everyone=True))


def test_a_resource_with_entries_for_others_is_closed_even_then() -> None:
    rules = authorizer(acl(principal="User:bob"), everyone=True)

    assert not may(rules)
    assert may(rules, name="payments")


def test_a_super_user_may_do_what_is_denied() -> None:
    rules = authorizer(acl(permission="deny"), super_users=(ANNA,))

    assert may(rules)


def test_an_entry_allows_its_operation_to_its_principal() -> None:
    rules = authorizer(acl("read"))

    assert may(rules, Operation.READ)
    assert not may(rules, Operation.WRITE)
    assert not may(rules, Operation.READ, principal="User:bob")
    assert not may(rules, Operation.READ, name="orders-2")


def test_an_entry_for_everybody_is_for_anna() -> None:
    assert may(authorizer(acl(principal="User:*")))


def test_an_entry_may_be_for_one_host() -> None:
    rules = authorizer(acl(host="10.0.0.7"))

    assert may(rules, host="10.0.0.7")
    assert not may(rules, host="10.0.0.8")


def test_a_wildcard_is_every_name() -> None:
    assert may(authorizer(acl(name="*")), name="anything")


def test_a_wildcard_as_a_prefix_is_only_a_star() -> None:
    rules = authorizer(acl(name="*", pattern="prefixed"))

    assert not may(rules, name="anything")


def test_a_prefix_is_every_name_that_begins_so() -> None:
    rules = authorizer(acl(name="ord", pattern="prefixed"))

    assert may(rules, name="ord")
    assert may(rules, name="orders")
    assert not may(rules, name="or")


def test_one_that_denies_wins() -> None:
    rules = authorizer(acl(name="*"), acl(), acl(name="ord", pattern="prefixed", permission="deny"))

    assert not may(rules)
    assert may(rules, name="payments")


def test_all_stands_for_each_operation() -> None:
    rules = authorizer(acl("all"))

    assert may(rules, Operation.WRITE)
    assert may(rules, Operation.DESCRIBE_CONFIGS)


@pytest.mark.parametrize("operation", ["read", "write", "delete", "alter"])
def test_who_may_do_something_may_describe(operation: str) -> None:
    assert may(authorizer(acl(operation)), Operation.DESCRIBE)


def test_who_may_alter_configs_may_describe_them() -> None:
    rules = authorizer(acl("alter_configs"))

    assert may(rules, Operation.DESCRIBE_CONFIGS)
    assert not may(rules, Operation.DESCRIBE)


def test_who_is_denied_to_read_may_still_describe() -> None:
    rules = authorizer(acl("read", permission="deny"), acl("write"))

    assert not may(rules, Operation.READ)
    assert may(rules, Operation.DESCRIBE)


def test_entries_that_are_taken_away_no_longer_count() -> None:
    rules = authorizer(acl())
    assert may(rules)

    rules.set_acls([])

    assert not may(rules)


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ((), False),
        ((acl("write"),), True),
        ((acl("read"),), False),
        ((acl("write"), acl("write", permission="deny")), False),
        ((acl("write"), acl("write", "or", pattern="prefixed", permission="deny")), False),
        ((acl("write"), acl("write", "x", permission="deny")), True),
        ((acl("write", "*"), acl("write", "or", pattern="prefixed", permission="deny")), True),
        ((acl("write"), acl("all", "*", permission="deny")), False),
        ((acl("write", "o", pattern="prefixed"), acl("write", "o", permission="deny")), True),
    ],
)
def test_whether_there_can_be_any_topic_to_write_to(acls: tuple[Acl, ...], expected: bool) -> None:
    rules = authorizer(*acls)

    assert rules.allows_any(ANNA, HOST, Operation.WRITE, ResourceType.TOPIC) is expected


def test_operations_are_bits() -> None:
    rules = authorizer(acl("read"))

    operations = rules.operations(ANNA, HOST, ResourceType.TOPIC, "orders")

    assert operations == 1 << Operation.READ | 1 << Operation.DESCRIBE


def test_a_super_user_has_all_operations() -> None:
    rules = authorizer(super_users=(ANNA,))

    operations = rules.operations(ANNA, HOST, ResourceType.CLUSTER, CLUSTER_NAME)

    assert operations == all_operations(ResourceType.CLUSTER)


def test_principals_are_separated_by_semicolons() -> None:
    assert parse_principals("User:a;User:CN=b,O=c;") == ("User:a", "User:CN=b,O=c")


def test_names_of_any_length_are_neither_kept_nor_logged_whole() -> None:
    rules = authorizer()
    may(rules, name="known")
    with structlog.testing.capture_logs() as lines:
        for turn in range(100):
            assert not may(rules, name=f"{turn}" + "x" * 10_000)

    assert [question[-1] for question in rules._remembered] == ["known"]
    assert 0 < len(lines) < 50
    assert max(len(str(each)) for each in lines) < 1_000


def test_a_denial_whose_line_was_left_out_is_logged_when_it_comes_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [0.0]
    clock = SimpleNamespace(monotonic=lambda: now[0])
    monkeypatch.setattr("headrace.broker.auth.authorizer.time", clock)
    rules = authorizer()
    with structlog.testing.capture_logs() as lines:
        for turn in range(30):
            assert not may(rules, name=f"flood-{turn}")
        assert not may(rules, name="orders")
        now[0] = 5.0
        for _ in range(3):
            assert not may(rules, name="orders")

    assert [each["resource"] for each in lines].count("TOPIC:orders") == 1
    assert lines[-1]["left_out"] == 21
