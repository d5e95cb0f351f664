"""How far a table is behind its topic."""

from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.client.read.offset_lookup import extents
from headrace.landing.table import Table
from headrace.model.ids import TopicPartition


def landing_lag(pool: ConnectionPool, table: Table) -> int:
    """Return how many offsets the topic has and the table has not reached.

    Raises:
        ClientError: the topic cannot be looked at.
    """
    name = table.source.topic
    topic = pool.metadata([name]).topics.get(name)
    if topic is None or topic.error is not None:
        raise ClientError(f"there is no topic {name}")
    partitions = [TopicPartition(name, index) for index in topic.partitions]
    offsets = table.offsets([each.partition for each in partitions])
    behind = 0
    for partition, extent in extents(pool, partitions, read_committed=True).items():
        if isinstance(extent, ClientError):
            raise extent
        behind += max(0, extent.end - offsets.get(partition.partition, extent.start))
    return behind
