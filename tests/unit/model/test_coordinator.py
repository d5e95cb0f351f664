"""The numbers were computed by Java's `String.hashCode`."""

import pytest

from headrace.model.coordinator import coordinator_partition
from headrace.model.error import InvalidArgument


@pytest.mark.parametrize(
    ("coordinated_id", "partition"),
    [
        ("a-long-transactional-id-with-negative-hash", 8),
        ("console-consumer", 40),
        ("console-consumer-12345", 6),
        ("my-group", 12),
        ("", 0),
        ("grüße", 23),
        ("pay-ü", 7),
        ("😀x", 39),
        ("polygenelubricants", 0),  # its hash is Integer.MIN_VALUE
    ],
)
def test_ids_live_where_kafka_looks_for_them(coordinated_id, partition):
    assert coordinator_partition(coordinated_id, 50) == partition


def test_there_must_be_a_partition():
    with pytest.raises(InvalidArgument):
        coordinator_partition("pay", 0)


def test_an_id_that_no_record_can_hold_is_refused_before_it_is_hashed():
    longest = "x" * (2**15 - 1)

    assert 0 <= coordinator_partition(longest, 50) < 50
    with pytest.raises(InvalidArgument, match="at most 32767 characters"):
        coordinator_partition(longest + "x", 50)
