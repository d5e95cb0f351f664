"""AlterReplicaLogDirs (34), versions 1 and 2: move logs between the directories of this broker
(KIP-113).

The response says that a move has begun; DescribeLogDirs shows how far it is.
"""

from pathlib import Path
from typing import Any

from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.log.log_directory import LogDirectory
from headrace.model.error import InvalidArgument, StorageError
from headrace.model.ids import TopicPartition
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.ALTER_REPLICA_LOG_DIRS


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(AlterReplicaLogDirsRequest)
    allowed = broker.guard.may_on_cluster(call, Operation.ALTER)
    results: dict[str, list[dict[str, Any]]] = {}
    for wanted in request.dirs:
        target = _directory(broker, wanted.path)
        for topic in wanted.topics:
            for index in topic.partitions:
                code = ErrorCode.cluster_authorization_failed
                if allowed:
                    code = await _move(broker, TopicPartition(topic.name, index), target)
                results.setdefault(topic.name, []).append(
                    {"partition_index": index, "error_code": code}
                )
    return {
        "results": [{"topic_name": topic, "partitions": found} for topic, found in results.items()]
    }


def _directory(broker: Broker, path: str) -> LogDirectory | None:
    """Return the directory at an absolute path."""
    return next(
        (each for each in broker.storage.directories if each.path.absolute() == Path(path)), None
    )


async def _move(broker: Broker, name: TopicPartition, target: LogDirectory | None) -> ErrorCode:
    if target is None:
        return ErrorCode.log_dir_not_found
    storage, topic = broker.storage, broker.topics.by_name(name.topic)
    if target.offline is not None:
        return ErrorCode.kafka_storage_error
    if topic is None or not 0 <= name.partition < len(topic.partitions):
        storage.choose(name, target)
        return ErrorCode.replica_not_available
    topic_id = topic.topic_id
    try:
        found = await broker.in_thread(lambda: storage.move(name, topic_id, target))
    except StorageError:
        return ErrorCode.kafka_storage_error
    except InvalidArgument:
        return ErrorCode.replica_not_available
    return ErrorCode.none if found else ErrorCode.replica_not_available
