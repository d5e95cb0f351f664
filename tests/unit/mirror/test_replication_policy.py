"""Names of topics at the other side."""

import pytest

from headrace.mirror.config.replication_policy import ReplicationPolicy

PREFIXED, KEPT = ReplicationPolicy(), ReplicationPolicy(keeps_names=True)


def test_a_copy_has_its_sources_alias_before_its_name() -> None:
    assert PREFIXED.remote_topic("us", "a.b") == "us.a.b"
    assert ReplicationPolicy("_").remote_topic("us", "a") == "us_a"
    assert KEPT.remote_topic("us", "a") == "a"
    assert KEPT.remote_topic("us", "heartbeats") == "us.heartbeats"


@pytest.mark.parametrize(
    ("topic", "source", "upstream", "original"),
    [
        ("a", None, None, "a"),
        ("us.a", "us", "a", "a"),
        ("eu.us.a", "eu", "us.a", "a"),
        (".a", None, None, ".a"),
        ("us.", None, None, "us."),
    ],
)
def test_a_name_says_where_it_came_from(
    topic: str, source: str | None, upstream: str | None, original: str
) -> None:
    assert PREFIXED.source_of(topic) == source
    assert PREFIXED.upstream_topic(topic) == upstream
    assert PREFIXED.original_topic(topic) == original


def test_no_topic_goes_back_to_where_it_was() -> None:
    assert PREFIXED.is_cycle("eu.us.a", "us")
    assert PREFIXED.is_cycle("us.a", "us")
    assert not PREFIXED.is_cycle("us.a", "eu")
    assert not KEPT.is_cycle("us.a", "us")
    assert KEPT.is_cycle("us.heartbeats", "us")


def test_internal_topics_are_known() -> None:
    assert PREFIXED.checkpoints_topic("us") == "us.checkpoints.internal"
    assert PREFIXED.offset_syncs_topic("eu") == "mm2-offset-syncs.eu.internal"
    for topic in ("us.checkpoints.internal", "mm2-offset-syncs.eu.internal"):
        assert PREFIXED.is_internal(topic)
    assert not PREFIXED.is_internal("clicks.internal")
