"""Which holdings of a simulated group break its rules, and which do not."""

from uuid import UUID

import pytest

from headrace.groups.request import GroupReply
from testkit.simulation.group_ownership import Answer, GroupOwnership, Holding

OLD, NEW = UUID(int=1), UUID(int=2)


class Failed(Exception):
    """A rule is broken."""


class Host:
    """The simulator, as far as ownership needs it."""

    now_ms = 1000

    def say(self, who, what):
        """Keep no trace."""

    def fail(self, what):
        raise Failed(what)


def group_of(*holdings):
    group = GroupOwnership(Host())
    for each in holdings:
        group.join(each)
    return group


def holding(name, *, classic=False):
    return Holding(name=name, classic=classic)


def answer(*, life=1, sure_until_ms=-1):
    return Answer(reply=GroupReply(), topic_id=OLD, life=life, sure_until_ms=sure_until_ms)


def test_two_owners_of_a_partition_in_one_generation_are_found_however_old_they_are():
    one, other = holding("a"), holding("b")
    group = group_of(one, other)
    group.confirm(one, answer(), 3, {0: OLD})

    with pytest.raises(Failed, match="in one generation"):
        group.confirm(other, answer(), 3, {0: OLD, 1: OLD})


def test_the_same_generation_of_a_later_group_is_another_one():
    one, other = holding("a"), holding("b")
    group = group_of(one, other)
    group.confirm(one, answer(life=1), 3, {0: OLD})
    group.confirm(other, answer(life=2), 3, {0: OLD})


def test_members_of_the_classic_protocol_own_names():
    one, other = holding("a", classic=True), holding("b", classic=True)
    group = group_of(one, other)
    group.confirm(one, answer(), 3, {0: OLD})

    with pytest.raises(Failed, match="in one generation"):
        group.confirm(other, answer(), 3, {0: NEW})


def test_two_members_that_are_sure_own_nothing_together_in_any_generation():
    one, other = holding("a", classic=True), holding("b")
    group = group_of(one, other)
    group.confirm(one, answer(sure_until_ms=1000), 3, {0: OLD})

    with pytest.raises(Failed, match="both sure of it"):
        group.confirm(other, answer(sure_until_ms=1000), 4, {0: OLD})


def test_a_member_that_becomes_sure_later_is_found():
    one, other = holding("a"), holding("b")
    group = group_of(one, other)
    group.confirm(one, answer(sure_until_ms=1000), 3, {0: OLD})
    group.confirm(other, answer(), 4, {0: OLD})

    with pytest.raises(Failed, match="both sure of it"):
        group.hears(other, answer(sure_until_ms=1000))


@pytest.mark.parametrize("sure_until_ms", [-1, 999])
def test_a_member_that_may_have_been_removed_may_own_what_another_has(sure_until_ms):
    one, other = holding("a"), holding("b")
    group = group_of(one, other)
    group.confirm(one, answer(sure_until_ms=sure_until_ms), 3, {0: OLD})
    group.confirm(other, answer(sure_until_ms=1000), 4, {0: OLD})


def test_a_topic_that_was_created_again_has_other_partitions():
    one, other = holding("a", classic=True), holding("b")
    group = group_of(one, other)
    group.confirm(one, answer(sure_until_ms=1000), 3, {0: OLD})
    group.confirm(other, answer(sure_until_ms=1000), 4, {0: NEW})


def test_a_client_that_has_gone_owns_nothing():
    one, other = holding("a"), holding("b")
    group = group_of(one, other)
    group.confirm(one, answer(sure_until_ms=1000), 3, {0: OLD})
    group.forget(one)
    group.confirm(other, answer(sure_until_ms=1000), 3, {0: OLD})
