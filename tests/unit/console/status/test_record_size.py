"""Bytes per record, estimated from the sizes of logs."""

import pytest

from headrace.console.status.record_size import RecordSizes
from headrace.model.ids import TopicPartition

P0, P1 = TopicPartition("clicks", 0), TopicPartition("clicks", 1)


def test_at_first_a_record_takes_its_share_of_what_is_there() -> None:
    sizes = RecordSizes()
    sizes.measure({P0: 3_000, P1: 1_000}, {P0: 10, P1: 0}, {P0: 30, P1: 20})
    assert sizes.means() == {"clicks": 100.0}


def test_then_the_growth_decides() -> None:
    sizes = RecordSizes()
    sizes.measure({P0: 1_000}, {P0: 0}, {P0: 10})
    sizes.measure({P0: 11_000}, {P0: 0}, {P0: 20})
    assert sizes.means() == {"clicks": 1_000.0}


@pytest.mark.parametrize("size", [500, 1_000])
def test_a_log_whose_segments_were_deleted_counts_as_a_whole(size: int) -> None:
    sizes = RecordSizes()
    sizes.measure({P0: 1_000}, {P0: 0}, {P0: 10})
    sizes.measure({P0: size}, {P0: 10}, {P0: 20})
    assert sizes.means() == {"clicks": size / 10}


def test_an_empty_topic_has_no_bytes() -> None:
    sizes = RecordSizes()
    sizes.measure({P0: 0}, {P0: 0}, {P0: 0})
    assert sizes.means() == {"clicks": 0.0}
