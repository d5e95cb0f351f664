import pytest

from headrace.groups.shard import shard_of
from headrace.model.error import InvalidArgument


@pytest.mark.parametrize(
    ("group_id", "expected"),
    [
        ("my-group", 12),
        ("", 0),
        ("grüße", 23),
        ("😀x", 39),
        ("console-consumer-12345", 6),
        ("polygenelubricants", 0),
    ],
)
def test_shard_is_the_one_kafka_chooses(group_id: str, expected: int) -> None:
    assert shard_of(group_id, 50) == expected


def test_there_is_at_least_one_shard() -> None:
    with pytest.raises(InvalidArgument, match="at least one"):
        shard_of("g", 0)
