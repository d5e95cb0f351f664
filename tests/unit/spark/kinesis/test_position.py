"""Offsets in the checkpoint."""

import json

import pytest

from headrace.spark.kinesis.position import (
    SHARD_END,
    TRIM_HORIZON,
    BadOffset,
    StreamOffset,
    after,
    at_timestamp,
    dump_offset,
    load_offset,
)


def test_offsets_are_positions_by_shard() -> None:
    shards = {"b": after("4959"), "a": SHARD_END, "c": TRIM_HORIZON, "d": at_timestamp(17)}

    position = StreamOffset("2026-11-16T11:00:00.000Z", shards)

    offset = dump_offset("clicks", position)

    assert json.dumps(offset) == (
        '{"clicks": {"CREATED": "2026-11-16T11:00:00.000Z", "a": "SHARD_END", "b": "4959",'
        ' "c": "TRIM_HORIZON", "d": "AT_TIMESTAMP 17"}}'
    )
    assert load_offset("clicks", offset) == position


def test_an_older_checkpoint_does_not_say_when_its_stream_was_created() -> None:
    older = {"clicks": {"a": "SHARD_END"}}

    assert load_offset("clicks", older) == StreamOffset(None, {"a": SHARD_END})
    assert dump_offset("clicks", load_offset("clicks", older)) == older


@pytest.mark.parametrize(
    "offset",
    [
        {},
        {"views": {}},
        {"clicks": {"a": "nowhere"}},
        {"clicks": {"a": 5}},
        {"clicks": 1},
        {"clicks": {"CREATED": 1}},
    ],
)
def test_a_checkpoint_of_something_else_is_refused(offset: dict[str, object]) -> None:
    with pytest.raises(BadOffset, match="checkpoint"):
        load_offset("clicks", offset)
