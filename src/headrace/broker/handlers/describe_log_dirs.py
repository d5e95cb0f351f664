"""DescribeLogDirs (35), versions 1 to 4: what lies in which directory (KIP-113, KIP-827)."""

import shutil
from typing import Any

from kio.schema.describe_log_dirs.v4.request import DescribeLogDirsRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.replica.follower import Follower
from headrace.broker.replica.partition import Partition
from headrace.log.log_directory import LogDirectory
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.DESCRIBE_LOG_DIRS


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(DescribeLogDirsRequest)
    if not broker.guard.may_on_cluster(call, Operation.DESCRIBE):
        return {"error_code": ErrorCode.cluster_authorization_failed, "results": []}
    replicas: dict[TopicPartition, Partition | Follower] = {
        partition.name: partition for partition in broker.topics.partitions()
    }
    for topic in broker.topics:
        replicas.update((follower.name, follower) for follower in topic.followers.values())
    if request.topics is not None:
        wanted = {
            TopicPartition(topic.topic, index)
            for topic in request.topics
            for index in topic.partitions
        }
        replicas = {name: replica for name, replica in replicas.items() if name in wanted}
    return {
        "results": [
            await broker.in_thread(lambda each=each: _describe(each, replicas))  # type: ignore[misc]
            for each in broker.storage.directories
        ]
    }


def _describe(
    directory: LogDirectory, replicas: dict[TopicPartition, Partition | Follower]
) -> dict[str, Any]:
    path = str(directory.path.absolute())
    if directory.offline is not None:
        return {"error_code": ErrorCode.kafka_storage_error, "log_dir": path}
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for name in directory.partitions:
        replica = replicas.get(name)
        if replica is not None:
            by_topic.setdefault(name.topic, []).append(
                {
                    "partition_index": name.partition,
                    "partition_size": replica.log.size_bytes,
                    "offset_lag": replica.lag if isinstance(replica, Follower) else 0,
                }
            )
    disk = shutil.disk_usage(directory.path)
    return {
        "log_dir": path,
        "topics": [{"name": topic, "partitions": found} for topic, found in by_topic.items()],
        "total_bytes": disk.total,
        "usable_bytes": disk.free,
    }
