"""Which broker replaces one that has ended, and when the others do."""

from headrace.broker.membership.takeover import takeover_seconds


def seconds(broker, ended, *, controller, members):
    return takeover_seconds(broker, ended, controller=controller, members=members)


def test_the_controller_does_it_at_once():
    assert seconds(7, 3, controller=7, members=range(1, 10)) == 0.0


def test_without_a_controller_the_lowest_id_does():
    members = range(1, 10)

    assert seconds(2, 1, controller=1, members=members) == 0.0
    assert seconds(1, 9, controller=-1, members=members) == 0.0
    assert seconds(3, 1, controller=1, members=members) > 0.0


def test_the_others_have_turns_of_their_own():
    members = range(1, 21)
    others = [each for each in members if each not in (3, 7)]

    waiting = [seconds(each, 3, controller=7, members=members) for each in others]

    assert min(waiting) > 0.0
    assert waiting == sorted(set(waiting))


def test_no_turn_is_as_late_as_the_end_of_a_session():
    assert seconds(999, 3, controller=7, members=range(1000)) <= 2.0


def test_the_one_that_ended_may_be_gone_already_and_this_one_not_be_listed():
    assert seconds(4, 3, controller=3, members=[]) == 0.0
