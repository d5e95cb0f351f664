"""How many offsets a client commits with one request."""

from headrace.client.network.commit_part import MOST_BYTES, commit_parts
from headrace.model.ids import TopicPartition


def offsets(count: int) -> dict[TopicPartition, int]:
    return {TopicPartition("clicks", index): index for index in range(count)}


def test_a_few_offsets_are_one_part() -> None:
    assert list(commit_parts("g", offsets(1000), {})) == [offsets(1000)]


def test_nothing_to_commit_is_no_part() -> None:
    assert list(commit_parts("g", {}, {})) == []


def test_many_offsets_are_cut_and_stay_in_their_order() -> None:
    wanted = offsets(20_000)

    parts = list(commit_parts("g", wanted, {}))

    assert len(parts) > 2
    assert [each for part in parts for each in part.items()] == list(wanted.items())


def test_texts_and_the_group_count_for_every_offset_in_bytes() -> None:
    wanted = offsets(100)

    assert len(list(commit_parts("g" * 10_000, wanted, {}))) > 1
    assert len(list(commit_parts("g", wanted, dict.fromkeys(wanted, "é" * 4_000)))) > 1


def test_an_offset_that_is_too_large_alone_is_a_part() -> None:
    wanted = offsets(2)

    parts = list(commit_parts("g", wanted, dict.fromkeys(wanted, "x" * MOST_BYTES)))

    assert [len(part) for part in parts] == [1, 1]
