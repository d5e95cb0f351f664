"""Ends between two looks."""

import pytest

from headrace.lag.end_pair import EndPair
from headrace.model.ids import TopicPartition

CLICKS, VIEWS = TopicPartition("clicks", 0), TopicPartition("views", 0)
PAIR = EndPair((1000, {CLICKS: 100}), (3000, {CLICKS: 300, VIEWS: 7}))


@pytest.mark.parametrize(
    ("at_ms", "end"), [(0, 100), (1000, 100), (2000, 200), (3000, 300), (9000, 300)]
)
def test_a_log_grows_evenly_between_looks_and_not_outside_of_them(at_ms: int, end: int) -> None:
    assert PAIR.at(CLICKS, at_ms) == end


def test_what_was_seen_once_ended_there() -> None:
    assert PAIR.at(VIEWS, 1500) == 7


def test_what_was_never_seen_has_no_end() -> None:
    assert PAIR.at(TopicPartition("other", 0), 1500) is None
