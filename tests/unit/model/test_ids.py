"""Topic names become directory names: what they may hold, and how they are read back."""

import pytest

from headrace.model.ids import TopicPartition, topic_name_problem


def test_a_partition_prints_as_its_directory_is_called() -> None:
    assert str(TopicPartition("page-views", 11)) == "page-views-11"


def test_the_last_dash_separates_topic_and_partition() -> None:
    assert TopicPartition.parse("page-views-11") == TopicPartition("page-views", 11)


@pytest.mark.parametrize("name", ["", "clicks", "clicks-", "-0", "clicks-x", "clicks-٣"])
def test_what_is_no_partition_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a topic and a partition"):
        TopicPartition.parse(name)


@pytest.mark.parametrize("name", ["clicks", "a.b_c-d", "9", "x" * 249, "..."])
def test_a_legal_topic_name_has_no_problem(name: str) -> None:
    assert topic_name_problem(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 250, "a\0b"])
def test_a_name_that_could_leave_its_directory_is_refused(name: str) -> None:
    assert topic_name_problem(name) is not None
