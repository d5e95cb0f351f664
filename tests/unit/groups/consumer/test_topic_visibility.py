"""Regular expressions of members with different rights: each gets only topics that it may see."""

from typing import Any
from uuid import UUID

import pytest

from headrace.groups.consumer.group import ConsumerGroup
from headrace.groups.consumer.member_metadata import updated_metadata
from headrace.groups.consumer.message import ConsumerHeartbeat, ConsumerHeartbeatReply
from headrace.groups.consumer.topic_visibility import TopicVisibility
from headrace.groups.record import ResolvedRegex
from headrace.groups.topic import GroupTopic, TopicImage
from testkit.simulation.group_shard import GroupShard


class Rights:
    """The rights of one user, which a test may change."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)
        self.version = 1
        self.asked: list[str] = []

    def allow(self, *names: str) -> None:
        self.names.update(names)
        self.version += 1

    def take(self, *names: str) -> None:
        self.names.difference_update(names)
        self.version += 1

    def may_describe(self, name: str) -> bool:
        self.asked.append(name)
        return name in self.names


IDS = {"clicks": UUID(int=1), "secret": UUID(int=2), "views": UUID(int=3)}


def image(version: int, *names: str) -> TopicImage:
    return TopicImage(version, tuple(GroupTopic(name, IDS[name], 2) for name in names))


@pytest.fixture
def shard() -> GroupShard:
    return GroupShard(topics=image(1, "clicks", "secret"))


def join(shard: GroupShard, member_id: str, rights: Rights, **more: Any) -> ConsumerHeartbeatReply:
    fields: dict[str, Any] = {
        "group_id": "g",
        "member_id": member_id,
        "member_epoch": 0,
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_regex": ".*",
        "owned": frozenset(),
        "rights": rights,
    }
    return shard.ask(ConsumerHeartbeat(**fields | more))


def beat(
    shard: GroupShard, last: ConsumerHeartbeatReply, rights: Rights, **more: Any
) -> ConsumerHeartbeatReply:
    assert last.member_id is not None
    fields: dict[str, Any] = {
        "group_id": "g",
        "member_id": last.member_id,
        "member_epoch": last.member_epoch,
        "rights": rights,
    }
    return shard.ask(ConsumerHeartbeat(**fields | more))


def topics(reply: ConsumerHeartbeatReply) -> set[str]:
    assert reply.assignment is not None
    names = {topic_id: name for name, topic_id in IDS.items()}
    return {names[each.topic_id] for each in reply.assignment}


def resolved(shard: GroupShard) -> tuple[str, ...]:
    group = shard.durable_group("g")
    assert isinstance(group, ConsumerGroup)
    return group.image.regexes[".*"].topics


def test_a_member_without_rights_learns_nothing(shard: GroupShard) -> None:
    assert topics(join(shard, "a", Rights())) == set()
    assert resolved(shard) == ()


def test_a_member_gets_the_matches_it_may_see(shard: GroupShard) -> None:
    assert topics(join(shard, "a", Rights("clicks"))) == {"clicks"}
    assert resolved(shard) == ("clicks",)


def test_a_topic_named_by_name_was_checked_by_the_handler(shard: GroupShard) -> None:
    assert topics(join(shard, "a", Rights(), subscribed_topic_names=("clicks",))) == {"clicks"}


def test_a_weak_member_gets_nothing_that_a_strong_one_resolved(shard: GroupShard) -> None:
    strong, weak = Rights("clicks", "secret"), Rights()
    first = join(shard, "a", strong)

    second = join(shard, "b", weak)
    again = beat(shard, first, strong)

    assert topics(first) == {"clicks", "secret"}
    assert topics(second) == set()
    assert again.assignment is None, "the weak member takes nothing from the strong one"


def test_a_topic_created_later_is_seen_only_with_the_right(shard: GroupShard) -> None:
    rights = Rights("clicks")
    joined = join(shard, "a", rights)

    shard.topics.image = image(2, "clicks", "secret", "views")
    assert beat(shard, joined, rights).assignment is None
    rights.allow("views")

    assert topics(beat(shard, joined, rights)) == {"clicks", "views"}


def test_a_right_that_is_taken_away_takes_the_partitions(shard: GroupShard) -> None:
    rights = Rights("clicks", "secret")
    joined = join(shard, "a", rights)

    rights.take("secret")

    assert topics(beat(shard, joined, rights)) == {"clicks"}


def test_a_right_that_one_of_two_members_loses_moves_its_partitions(shard: GroupShard) -> None:
    strong, other = Rights("clicks", "secret"), Rights("clicks", "secret")
    first = join(shard, "a", strong)
    second = join(shard, "b", other)
    for _ in range(2):
        first = beat(shard, first, strong, owned=first.assignment or frozenset())
        second = beat(shard, second, other, owned=frozenset())

    # One authorizer has one version.
    other.take("secret")
    strong.version = other.version
    assert "secret" not in topics(beat(shard, second, other, owned=frozenset()))
    first = beat(shard, first, strong, owned=frozenset())

    group = shard.group("g")
    assert isinstance(group, ConsumerGroup)
    held = {each.topic_id for each in group.image.target["b"]}
    assert IDS["secret"] not in held
    assert {each for each in group.image.target["a"] if each.topic_id == IDS["secret"]}


def test_rights_hold_after_a_reload(shard: GroupShard) -> None:
    strong, weak = Rights("clicks", "secret"), Rights("clicks")
    join(shard, "a", strong)
    second = join(shard, "b", weak)

    shard = shard.reopened()
    full = {"rebalance_timeout_ms": 60_000, "subscribed_topic_regex": ".*", "owned": frozenset()}
    reply = beat(shard, second, weak, **full)

    assert topics(reply) <= {"clicks"}
    assert resolved(shard) == ("clicks", "secret"), "what the absent member may see stays"


def test_a_new_topic_costs_one_decision(shard: GroupShard) -> None:
    rights = Rights("clicks", "views")
    joined = join(shard, "a", rights)
    assert sorted(rights.asked) == ["clicks", "secret"]

    shard.topics.image = image(2, "clicks", "secret", "views")
    beat(shard, joined, rights)

    assert sorted(rights.asked) == ["clicks", "secret", "views"]


def test_a_change_of_leaders_costs_no_decision(
    shard: GroupShard, monkeypatch: pytest.MonkeyPatch
) -> None:
    rights = Rights("clicks")
    joined = join(shard, "a", rights)
    names = shard.topics.names()
    shard.topics.image = image(2, "clicks", "secret")
    monkeypatch.setattr(shard.topics, "names", lambda: names)
    rights.asked.clear()
    monkeypatch.setattr("headrace.groups.consumer.group.matching_topics", None)

    assert beat(shard, joined, rights).error is None
    assert rights.asked == []


def test_a_right_lost_on_the_way_is_taken_at_once(shard: GroupShard) -> None:
    """The member has not given up what it should, so it is not at its target yet."""
    strong, other = Rights("clicks", "secret"), Rights("clicks", "secret")
    first = join(shard, "a", strong)
    join(shard, "b", other, subscribed_topic_regex=None, subscribed_topic_names=("clicks",))
    join(shard, "c", other)
    held = first.assignment
    assert topics(beat(shard, first, strong, owned=held)) == {"secret"}

    strong.take("secret")
    other.version = strong.version

    assert topics(beat(shard, first, strong, owned=held)) == set()


def test_a_member_that_left_has_no_rights_any_more(shard: GroupShard) -> None:
    rights, other = Rights("clicks"), Rights("clicks")
    first = join(shard, "a", rights)
    second = join(shard, "b", other)
    beat(shard, second, other, member_epoch=-1)

    shard.topics.image = image(2, "clicks", "views")

    assert beat(shard, first, rights).error is None


def test_a_join_that_was_not_written_leaves_no_rights(shard: GroupShard) -> None:
    rights = Rights("clicks")
    first = join(shard, "a", rights)
    shard.fail_appends = True
    join(shard, "b", Rights("secret"))
    shard.fail_appends = False

    shard.topics.image = image(2, "clicks", "views")

    assert beat(shard, first, rights).error is None
    assert resolved(shard) == ("clicks",)


class Reader:
    """One visibility, and one member that subscribes by an expression."""

    def __init__(self) -> None:
        self.visibility = TopicVisibility()

    def see(self, rights: Rights, regex: str, *matches: str) -> frozenset[str]:
        """Subscribe, resolve, and return what is hidden from the member."""
        self.visibility.store("a", rights)
        self.visibility.visible(regex, matches, ["a"], None)
        metadata = updated_metadata(
            None, ConsumerHeartbeat(group_id="g", subscribed_topic_regex=regex)
        )
        all_of_them = ResolvedRegex(topics=matches, version=1, timestamp_ms=0)
        self.visibility.hide({"a": metadata}, {regex: all_of_them})
        return self.visibility.hidden_from("a")


def test_a_copy_changes_alone() -> None:
    reader = Reader()
    reader.see(Rights("clicks"), ".*", "clicks", "secret")
    copy = reader.visibility.copy()

    reader.see(Rights("clicks", "secret"), ".*", "clicks", "secret")

    assert reader.visibility.hidden_from("a") == frozenset()
    assert copy.hidden_from("a") == {"secret"}


def test_without_rights_nothing_is_hidden() -> None:
    reader = Reader()
    rights = Rights("clicks")
    assert reader.visibility.store("a", rights)
    assert not reader.visibility.store("a", rights)
    assert reader.see(rights, ".*", "clicks", "secret") == {"secret"}

    assert reader.visibility.store("a", None)
    assert not reader.visibility.store("a", None)
    assert reader.visibility.hidden_from("a") == frozenset()


def test_decisions_about_an_expression_go_with_its_last_reader() -> None:
    reader = Reader()
    rights = Rights("clicks")
    for regex in (".*", "c.*", ".*"):
        reader.see(rights, regex, "clicks")

    assert rights.asked == ["clicks"] * 3
