"""How many bytes partitions take on the disks of their brokers (DescribeLogDirs, KIP-113)."""

from dataclasses import dataclass, field

from headrace.client.error import ClientError
from headrace.client.network.pool import ConnectionPool
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey


@dataclass(slots=True)
class LogSizes:
    """Sizes that brokers report. A broker that does not answer is left out.

    Attributes:
        partitions: the largest replica of each partition.
        brokers: the bytes of all replicas on each broker.
        total, free: of each broker's disks; -1 if the broker is older than KIP-827.
    """

    partitions: dict[TopicPartition, int] = field(default_factory=dict)
    brokers: dict[int, int] = field(default_factory=dict)
    total: dict[int, int] = field(default_factory=dict)
    free: dict[int, int] = field(default_factory=dict)


def log_sizes(pool: ConnectionPool, brokers: list[int]) -> LogSizes:
    """Ask every broker for the sizes of its replicas."""
    sizes = LogSizes()
    for broker in brokers:
        try:
            answer = pool.node(broker).call(ApiKey.DESCRIBE_LOG_DIRS, {"topics": None})
        except ClientError:
            continue
        on_broker = 0
        for directory in answer.results:
            for topic in directory.topics:
                for each in topic.partitions:
                    size = int(each.partition_size)
                    on_broker += size
                    partition = TopicPartition(topic.name, each.partition_index)
                    sizes.partitions[partition] = max(size, sizes.partitions.get(partition, 0))
        sizes.brokers[broker] = on_broker
        sizes.total[broker] = sum(int(each.total_bytes) for each in answer.results)
        sizes.free[broker] = sum(int(each.usable_bytes) for each in answer.results)
    return sizes
