"""DescribeLogDirs (35), versions 1 to 4: what lies in which directory (KIP-113, KIP-827)."""

import shutil
from pathlib import Path
from typing import Any, TypeAlias

from kio.schema.describe_log_dirs.v4.request import DescribeLogDirsRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.replica.follower import Follower
from headrace.broker.replica.partition import Partition
from headrace.log.log_directory import LogDirectory
from headrace.log.log_move import LogMove
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.DESCRIBE_LOG_DIRS

Shown: TypeAlias = Partition | Follower | LogMove


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
    moves = [each for to in broker.storage.directories for each in broker.storage.moves.of(to)]
    # Where each log lies at one moment: one that moves meanwhile is shown once.
    shown: dict[Path, list[Shown]] = {}
    for replica in replicas.values():
        shown.setdefault(replica.log.path.parent, []).append(replica)
    for move in moves:
        if move.partition in replicas and move.log.path.parent != move.target.path:
            shown.setdefault(move.target.path, []).append(move)
    return {
        "results": [
            await broker.in_thread(lambda each=each: _describe(each, shown.get(each.path, [])))  # type: ignore[misc]
            for each in broker.storage.directories
        ]
    }


def _describe(directory: LogDirectory, shown: list[Shown]) -> dict[str, Any]:
    path = str(directory.path.absolute())
    if directory.offline is not None:
        return {"error_code": ErrorCode.kafka_storage_error, "log_dir": path}
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for each in sorted(shown, key=lambda each: each.log.partition):
        by_topic.setdefault(each.log.partition.topic, []).append(
            {
                "partition_index": each.log.partition.partition,
                "partition_size": each.size_bytes
                if isinstance(each, LogMove)
                else each.log.size_bytes,
                "offset_lag": 0 if isinstance(each, Partition) else each.lag,
                "is_future_key": isinstance(each, LogMove),
            }
        )
    disk = shutil.disk_usage(directory.path)
    return {
        "log_dir": path,
        "topics": [{"name": topic, "partitions": found} for topic, found in by_topic.items()],
        "total_bytes": disk.total,
        "usable_bytes": disk.free,
    }
