"""Which shards are read next: children after parents, nothing twice."""

from headrace.spark.kinesis.position import SHARD_END, TRIM_HORIZON, after
from headrace.spark.kinesis.shard_graph import (
    Shard,
    continued,
    initial_positions,
    readable,
)

PARENT, LEFT, RIGHT = Shard("a", (), False), Shard("b", ("a",)), Shard("c", ("a",))
MERGED = Shard("d", ("b", "c"))


def test_children_wait_for_their_parent() -> None:
    shards = [PARENT, LEFT, RIGHT]
    positions = continued({"a": after("5")}, shards).positions

    assert readable(positions, shards) == ["a"]
    assert readable(positions | {"a": SHARD_END}, shards) == ["b", "c"]


def test_a_merged_shard_waits_for_both_parents() -> None:
    shards = [LEFT, RIGHT, MERGED]

    assert readable({"b": SHARD_END, "c": after("5"), "d": TRIM_HORIZON}, shards) == ["c"]
    assert readable({"b": SHARD_END, "c": SHARD_END, "d": TRIM_HORIZON}, shards) == ["d"]


def test_a_shard_that_is_gone_before_its_end_is_a_loss() -> None:
    found = continued({"a": after("5")}, [LEFT, RIGHT])

    assert found.lost == ("a",)
    assert readable(found.positions, [LEFT, RIGHT]) == ["b", "c"]


def test_the_position_of_a_shard_that_is_over_and_gone_is_removed() -> None:
    found = continued({"a": SHARD_END, "b": after("7"), "c": after("8")}, [LEFT, RIGHT])

    assert found.lost == ()
    assert found.positions == {"b": after("7"), "c": after("8")}


def test_an_ancestor_that_is_listed_again_is_not_read_again() -> None:
    shards = [PARENT, LEFT, RIGHT, MERGED]

    found = continued({"d": after("9")}, shards).positions

    assert readable(found, shards) == ["d"]


def test_latest_leaves_out_what_was_over_before() -> None:
    assert initial_positions([PARENT, LEFT, RIGHT], None) == {"a": SHARD_END}
