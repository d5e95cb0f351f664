"""Offsets in the checkpoint."""

import json

import pytest

from headrace.spark.kinesis.position import (
    SHARD_END,
    TRIM_HORIZON,
    BadOffset,
    after,
    at_timestamp,
    dump_offset,
    load_offset,
)


def test_offsets_are_positions_by_shard() -> None:
    positions = {"b": after("4959"), "a": SHARD_END, "c": TRIM_HORIZON, "d": at_timestamp(17)}

    offset = dump_offset("clicks", positions)

    assert json.dumps(offset) == (
        '{"clicks": {"a": "SHARD_END", "b": "4959", "c": "TRIM_HORIZON", "d": "AT_TIMESTAMP 17"}}'
    )
    assert load_offset("clicks", offset) == positions


@pytest.mark.parametrize(
    "offset",
    [{}, {"views": {}}, {"clicks": {"a": "nowhere"}}, {"clicks": {"a": 5}}, {"clicks": 1}],
)
def test_a_checkpoint_of_something_else_is_refused(offset: dict[str, object]) -> None:
    with pytest.raises(BadOffset, match="checkpoint"):
        load_offset("clicks", offset)
