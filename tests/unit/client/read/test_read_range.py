"""Ranges: what can be meant by one, and that it travels to other processes."""

import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from headrace.client.read.read_range import LogEdge, Moment, ReadRange, milliseconds
from headrace.model.error import InvalidArgument


@pytest.mark.parametrize(
    "bounds",
    [(), (5,), (5, 5), (LogEdge.EARLIEST, Moment(9)), (datetime(2026, 1, 1, tzinfo=UTC), 7)],
)
def test_a_range_survives_pickling(bounds: tuple[Any, ...]) -> None:
    wanted = ReadRange(*bounds)
    assert pickle.loads(pickle.dumps(wanted)) == wanted


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ((-1,), "-1 is no offset: write LogEdge.EARLIEST or LogEdge.LATEST"),
        ((0, -2), "-2 is no offset"),
        ((10, 9), "a range cannot end at 9, before its start 10"),
        ((datetime(2026, 1, 1),), "has no time zone"),
        (("earliest",), "'earliest' is no bound of a range"),
        ((True,), "True is no bound of a range"),
        ((1.5,), "1.5 is no bound of a range"),
    ],
)
def test_a_range_that_cannot_be_meant(bounds: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        ReadRange(*bounds)


def test_a_time_between_two_milliseconds_is_the_later_one() -> None:
    moment = datetime(2026, 11, 15, 12, 0, 0, 1, tzinfo=UTC)
    assert milliseconds(moment) == milliseconds(moment.replace(microsecond=1000))


def test_a_time_zone_moves_a_time() -> None:
    berlin = timezone(timedelta(hours=1))
    assert milliseconds(datetime(1970, 1, 1, 1, tzinfo=berlin)) == 0
    assert milliseconds(Moment(7)) == 7
