"""Which rights follow a topic to its mirror."""

import pytest

from headrace.mirror.link.acl_sync import LITERAL, PREFIXED, TopicAcl, mirrored_acls

ALL, READ, WRITE, ALTER, DESCRIBE, DESCRIBE_CONFIGS = 2, 3, 4, 7, 8, 10
DENY, ALLOW = 2, 3
NAMES = {"clicks": "us.clicks", "orders": "us.orders"}


def entry(topic: str, operation: int, permission: int = ALLOW, pattern: int = LITERAL) -> TopicAcl:
    return TopicAcl(topic, pattern, "User:anna", "*", operation, permission)


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
