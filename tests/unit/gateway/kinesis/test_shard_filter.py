"""Which shards a filter shows, of a stream whose one shard was split."""

from typing import Any

import pytest

from headrace.gateway.kinesis.error import ServiceError
from headrace.gateway.kinesis.protocol.timestamp import Timestamp
from headrace.gateway.kinesis.stream.reshard_plan import plan_split
from headrace.gateway.kinesis.stream.shard_filter import filtered_shards
from headrace.gateway.kinesis.stream.stream_state import StreamState, StreamStatus, new_stream

HOUR_MS = 3_600_000
CREATED_MS = 1_700_000_000_000
SPLIT_MS = CREATED_MS + HOUR_MS


def split_stream() -> StreamState:
    stream = new_stream("clicks", 1, CREATED_MS).changed(status=StreamStatus.ACTIVE)
    plan = plan_split(stream, "0" * 12, "shardId-000000000000", 2**127, SPLIT_MS)
    return stream.announced(plan).resharded({0: 10}, SPLIT_MS)


@pytest.mark.parametrize(
    ("wish", "hours", "numbers"),
    [
        (None, 2, [0, 1, 2]),
        (None, 26, [1, 2]),
        ({"Type": "AT_LATEST"}, 2, [1, 2]),
        ({"Type": "AT_TRIM_HORIZON"}, 2, [0]),
        ({"Type": "FROM_TRIM_HORIZON"}, 2, [0, 1, 2]),
        ({"Type": "AFTER_SHARD_ID", "ShardId": "shardId-000000000001"}, 2, [2]),
        ({"Type": "AT_TIMESTAMP", "Timestamp": Timestamp(SPLIT_MS - 1)}, 2, [0]),
        ({"Type": "AT_TIMESTAMP", "Timestamp": Timestamp(SPLIT_MS + 1)}, 2, [1, 2]),
        ({"Type": "FROM_TIMESTAMP", "Timestamp": Timestamp(SPLIT_MS - 1)}, 2, [0, 1, 2]),
        ({"Type": "FROM_TIMESTAMP", "Timestamp": Timestamp(SPLIT_MS + 1)}, 2, [1, 2]),
        ({"Type": "FROM_TIMESTAMP", "Timestamp": Timestamp(0)}, 2, [0, 1, 2]),
    ],
)
def test_a_filter_shows(wish: dict[str, Any] | None, hours: int, numbers: list[int]) -> None:
    found = filtered_shards(split_stream(), wish, CREATED_MS + hours * HOUR_MS)

    assert [each.number for each in found] == numbers


@pytest.mark.parametrize("kind", ["AFTER_SHARD_ID", "AT_TIMESTAMP", "FROM_TIMESTAMP"])
def test_a_filter_that_lacks_its_argument_is_refused(kind: str) -> None:
    with pytest.raises(ServiceError, match="InvalidArgumentException"):
        filtered_shards(split_stream(), {"Type": kind}, SPLIT_MS)
