import pytest

from headrace.groups.config import GroupConfig
from testkit.simulation.group_shard import GroupShard


@pytest.fixture
def shard() -> GroupShard:
    """No initial delay: a join phase ends when all are there."""
    return GroupShard(GroupConfig(group_initial_rebalance_delay_ms=0))
