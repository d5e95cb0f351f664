"""An expression of a KIP-848 group is matched again only when its result may be another one."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

import pytest

from headrace.groups.consumer import group as consumer_group
from headrace.groups.consumer.group import ConsumerGroup
from headrace.groups.regex import matching_topics
from headrace.groups.topic import GroupTopic, TopicImage
from testkit.simulation.group_member import consumer_beat
from testkit.simulation.group_shard import GroupShard

CLICKS, VIEWS = GroupTopic("clicks", UUID(int=1), 2), GroupTopic("views", UUID(int=2), 2)


@dataclass(frozen=True)
class Rights:
    """A user that sees some topics."""

    names: frozenset[str]
    version: int = 1

    def may_describe(self, name: str) -> bool:
        return name in self.names


ALL, FEW = Rights(frozenset(("clicks", "views"))), Rights(frozenset(("clicks",)))


@pytest.fixture
def shard() -> GroupShard:
    return GroupShard(topics=TopicImage(1, (CLICKS, VIEWS)))


@pytest.fixture
def matched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The expressions that were matched, in order."""
    found: list[str] = []

    def counted(regex: str, names: Iterable[str]) -> tuple[str, ...]:
        found.append(regex)
        return matching_topics(regex, names)

    monkeypatch.setattr(consumer_group, "matching_topics", counted)
    return found


def resolved(shard: GroupShard) -> dict[str, tuple[str, ...]]:
    group = shard.group("g")
    assert isinstance(group, ConsumerGroup)
    return {regex: each.topics for regex, each in group.image.regexes.items()}


def test_a_join_matches_its_own_expression_alone(shard: GroupShard, matched: list[str]) -> None:
    """All of the group's were matched again: 0.4 s at 10,000 topics and 40 members."""
    for member_id, regex in (("a", "c.*"), ("b", "v.*"), ("c", ".*"), ("d", "c.*")):
        consumer_beat(shard, member_id, subscribed_topic_regex=regex)

    assert matched == ["c.*", "v.*", ".*"]
    assert resolved(shard) == {
        "c.*": ("clicks",),
        "v.*": ("views",),
        ".*": ("clicks", "views"),
    }


def test_another_topic_concerns_every_expression(shard: GroupShard, matched: list[str]) -> None:
    for member_id, regex in (("a", "c.*"), ("b", "v.*")):
        epoch = consumer_beat(shard, member_id, subscribed_topic_regex=regex).member_epoch
    matched.clear()

    shard.topics.image = TopicImage(2, (CLICKS, VIEWS, GroupTopic("videos", UUID(int=3), 1)))
    consumer_beat(shard, "b", epoch)

    assert matched == ["c.*", "v.*"]
    assert resolved(shard)["v.*"] == ("videos", "views")


def test_other_rights_of_a_member_concern_its_own_expression(
    shard: GroupShard, matched: list[str]
) -> None:
    consumer_beat(shard, "a", subscribed_topic_regex="v.*", rights=ALL)
    consumer_beat(shard, "b", subscribed_topic_regex=".*", rights=FEW)
    assert resolved(shard) == {"v.*": ("views",), ".*": ("clicks",)}
    matched.clear()

    consumer_beat(shard, "c", subscribed_topic_regex=".*", rights=ALL)

    assert matched == [".*"]
    assert resolved(shard) == {"v.*": ("views",), ".*": ("clicks", "views")}


def test_what_only_a_member_saw_that_is_gone_is_not_matched_any_more(
    shard: GroupShard, matched: list[str]
) -> None:
    consumer_beat(shard, "a", subscribed_topic_regex=".*", rights=FEW)
    consumer_beat(shard, "b", subscribed_topic_regex=".*", rights=ALL)
    consumer_beat(shard, "b", -1)
    matched.clear()

    consumer_beat(shard, "c", subscribed_topic_regex="c.*", rights=ALL)

    assert matched == [".*", "c.*"]
    assert resolved(shard) == {".*": ("clicks",), "c.*": ("clicks",)}
