"""When a topic gets a turn, and what is kept of it."""

import time

from headrace.landing.committer import Landed
from headrace.landing.configured.configured_topic import ConfiguredTopic
from headrace.landing.configured.topic_landing import TopicLanding, Totals
from headrace.landing.error import AnotherLanding
from headrace.model.table.table_config import TableConfig
from headrace.model.table.table_name import TableName


def landing() -> TopicLanding:
    table = TableConfig(name=TableName.parse("delta:clicks"))
    return TopicLanding(ConfiguredTopic("clicks", None, table, (0, 1)), Totals())


def turn(topic: TopicLanding, ends: dict[int, int], offsets: dict[int, int], rows: int) -> bool:
    """Let a turn begin at these ends and commit these offsets."""
    assert topic.look(ends, 1000)
    topic.begin()
    landed = Landed(rows=rows, commits=1, offsets=offsets)
    topic.commit(landed, 1001)
    return topic.succeed(landed, rows)


def test_a_topic_whose_table_is_not_known_is_due() -> None:
    topic = landing()

    assert topic.due_at <= time.monotonic()
    assert topic.look({0: 0, 1: 0}, 1000)
    assert topic.lag is None


def test_only_new_records_are_work() -> None:
    topic = landing()
    turn(topic, {0: 5, 1: 2}, {0: 5, 1: 2}, 7)

    assert (topic.lag, topic.complete_ms, topic.rows) == (0, 1000, 7)
    assert topic.due_at > time.monotonic() + 1
    assert not topic.look({0: 5, 1: 2}, 2000)
    assert topic.complete_ms == 2000
    assert topic.look({0: 6, 1: 4}, 3000)
    assert (topic.lag, topic.complete_ms) == (3, 2000)


def test_a_topic_that_was_truncated_is_work() -> None:
    topic = landing()
    turn(topic, {0: 5, 1: 2}, {0: 5, 1: 2}, 7)

    assert topic.look({0: 4, 1: 2}, 2000)


def test_a_turn_that_was_stopped_goes_on_at_once() -> None:
    topic = landing()
    turn(topic, {0: 5, 1: 2}, {0: 3, 1: 2}, 5)

    assert (topic.lag, topic.complete_ms, topic.done) == (2, None, False)
    assert topic.due_at <= time.monotonic()


def test_a_stopped_turn_without_a_table_has_reached_nothing() -> None:
    topic = landing()
    topic.look({0: 5, 1: 0}, 1000)
    topic.begin()
    topic.stopped = True

    topic.succeed(Landed(), None)

    assert (topic.offsets, topic.complete_ms) == (None, None)


def test_a_turn_after_one_that_was_cancelled_is_not() -> None:
    # The configuration may have become again what it was while the turn came to its end.
    topic = landing()
    topic.look({0: 5, 1: 2}, 1000)
    topic.begin()
    topic.cancelled = topic.stopped = True
    topic.succeed(Landed(), None)

    assert topic.look({0: 5, 1: 2}, 2000)
    topic.begin()

    assert (topic.running, topic.cancelled, topic.stopped) == (True, False, False)


def test_an_empty_topic_without_a_table_is_not_looked_at_again_and_again() -> None:
    topic = landing()
    topic.look({0: 0, 1: 0}, 1000)
    topic.begin()

    topic.succeed(Landed(), None)

    assert not topic.look({0: 0, 1: 0}, 2000)
    assert topic.look({0: 1, 1: 0}, 3000)


def test_a_failure_is_tried_again_later_and_later() -> None:
    topic = landing()

    pauses = [topic.fail("no table") for _ in range(12)]

    assert pauses[:4] == [1, 2, 4, 8]
    assert pauses[-1] == 300
    assert (topic.problem, topic.done, topic.totals.failures) == ("no table", True, 12)
    assert turn(topic, {0: 1, 1: 0}, {0: 1, 1: 0}, 1)
    assert topic.problem is None
    assert topic.fail("no table") == 1


def test_two_processes_do_not_take_a_topic_from_each_other_all_the_time() -> None:
    assert landing().fail("another process lands", AnotherLanding("another")) == 30


def test_what_a_failed_turn_committed_counts_once() -> None:
    topic = landing()
    topic.look({0: 5, 1: 2}, 1000)
    topic.begin()
    topic.commit(Landed(rows=3, commits=1, offsets={0: 3}), 1001)
    assert topic.counts().rows == 3
    assert topic.known_offsets() == {0: 3}

    topic.fail("the disk is full")

    assert (topic.counts().rows, topic.totals.rows, topic.offsets) == (3, 3, {0: 3})
    turn(topic, {0: 5, 1: 2}, {0: 5, 1: 2}, 4)
    assert (topic.counts().rows, topic.totals.commits) == (7, 2)
    assert topic.status(9).rows == 4
