from dataclasses import replace

import pytest

from headrace.groups.classic.member import ClassicMember
from headrace.groups.classic.roster import Roster
from headrace.groups.error import GroupError, Refusal


def member(member_id: str, instance_id: str | None = None) -> ClassicMember:
    return ClassicMember(
        member_id=member_id,
        instance_id=instance_id,
        client_id="c",
        client_host="h",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=60_000,
        protocols=(),
    )


def roster(*members: ClassicMember) -> Roster:
    made = Roster("g")
    for each in members:
        made.add(each)
    return made


def test_change_of_a_draft_does_not_show_in_the_roster() -> None:
    known = roster(member("a", "i"))

    draft = known.draft()
    draft.remove(draft.members["a"])
    draft.pending["b"] = 1

    assert (list(known.members), known.static, known.pending) == (["a"], {"i": "a"}, {})


def test_static_member_that_came_back_keeps_its_position() -> None:
    known = roster(member("a"), member("b", "i"), member("c"))

    known.replace_static("b", member("b2", "i"))

    assert list(known.members) == ["a", "b2", "c"]
    assert known.static == {"i": "b2"}


def test_old_member_id_of_an_instance_is_fenced() -> None:
    known = roster(member("b2", "i"))

    with pytest.raises(Refusal) as fenced:
        known.check_member("b", "i")
    with pytest.raises(Refusal) as unknown:
        known.check_member("b2", "j")

    assert fenced.value.error is GroupError.FENCED_INSTANCE_ID
    assert unknown.value.error is GroupError.UNKNOWN_MEMBER_ID


def test_an_instance_goes_with_its_member() -> None:
    known = roster(member("a", "i"), member("b"))

    known.remove(known.members["a"])
    known.remove(known.members["b"])

    assert (known.members, known.static) == ({}, {})


def test_the_longest_rebalance_timeout_counts_and_is_at_least_a_millisecond() -> None:
    short, long = (
        replace(member(id_), rebalance_timeout_ms=ms) for id_, ms in (("a", 0), ("b", 9))
    )

    assert roster(short).rebalance_timeout_ms() == 1
    assert roster(short, long).rebalance_timeout_ms() == 9
