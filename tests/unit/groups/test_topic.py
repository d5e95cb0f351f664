from uuid import UUID

from headrace.groups.topic import GroupTopic, TopicIdPartition, TopicImage, with_ids, with_names
from headrace.model.ids import TopicPartition

TOPICS = TopicImage(1, (GroupTopic("clicks", UUID(int=1), 2),))


def test_only_partitions_that_exist_have_ids() -> None:
    named = frozenset(TopicPartition("clicks", number) for number in (-1, 0, 1, 2))

    ids = with_ids(named | {TopicPartition("gone", 0)}, TOPICS)

    assert ids == {TopicIdPartition(UUID(int=1), 0), TopicIdPartition(UUID(int=1), 1)}
    assert with_names(ids | {TopicIdPartition(UUID(int=9), 0)}, TOPICS) == {
        TopicPartition("clicks", 0),
        TopicPartition("clicks", 1),
    }
