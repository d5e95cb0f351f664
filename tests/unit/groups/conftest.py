from uuid import UUID

import pytest

from headrace.groups.config import GroupConfig
from headrace.groups.topic import GroupTopic, TopicImage
from testkit.simulation.group_shard import GroupShard


@pytest.fixture
def shard() -> GroupShard:
    """No initial delay: a join phase ends when all members have joined."""
    topics = (GroupTopic("clicks", UUID(int=1), 2), GroupTopic("views", UUID(int=2), 2))
    return GroupShard(GroupConfig(group_initial_rebalance_delay_ms=0), TopicImage(1, topics))
