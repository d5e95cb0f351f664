"""A group of either protocol."""

from typing import TypeAlias

from headrace.groups.classic.group import ClassicGroup
from headrace.groups.classic_subscription import CONSUMER_PROTOCOL_TYPE
from headrace.groups.consumer.group import ConsumerGroup

Group: TypeAlias = ClassicGroup | ConsumerGroup


def reads(group: Group, topic: str) -> bool:
    """Return whether the group reads a topic.

    A classic consumer group whose subscription cannot be parsed counts as reading every topic.
    """
    topics = group.subscribed_topics()
    if topics is not None:
        return topic in topics
    return isinstance(group, ClassicGroup) and group.protocol_type == CONSUMER_PROTOCOL_TYPE
