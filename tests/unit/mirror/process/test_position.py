"""Positions as they are committed at the target."""

from uuid import UUID

from headrace.mirror.process.position import Position, is_position_group, position_group

TOPIC_ID = UUID("0190e5d4-0000-7000-8000-000000000001")


def test_a_position_is_read_as_it_was_committed() -> None:
    position = Position(42, 7, TOPIC_ID)

    offset, note, epoch = position.committed()

    assert Position.of(offset, epoch, note) == position


def test_a_position_that_a_tool_committed_has_no_topic() -> None:
    assert Position.of(42, -1, "") == Position(42)
    assert Position.of(42, -1, "source-topic-id=what?") == Position(42)


def test_the_groups_of_flows_are_known_by_their_names() -> None:
    assert is_position_group(position_group("us->eu"))
    assert not is_position_group("mirror-readers")
