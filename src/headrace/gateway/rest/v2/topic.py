"""Topics, partitions and brokers of API v2."""

from typing import Any

from headrace.client.admin.admin import Admin
from headrace.client.error import BrokerError, ClientError
from headrace.client.network.metadata import PartitionMetadata, TopicMetadata
from headrace.client.read.offset_lookup import extents
from headrace.gateway.rest.error import RestError
from headrace.gateway.rest.request import V2_TYPE, Answer, Call
from headrace.model.config_code import ConfigResourceType
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode


def root(call: Call) -> Answer:
    return _answer({})


def list_brokers(call: Call) -> Answer:
    return _answer({"brokers": sorted(call.pool.metadata(()).brokers)})


def list_topics(call: Call) -> Answer:
    topics = call.pool.metadata().topics
    can = call.can_describe
    return _answer(
        sorted(name for name, each in topics.items() if each.error is None and can(name))
    )


def get_topic(call: Call) -> Answer:
    topic = _find(call)
    configs = Admin(call.pool).describe_configs(ConfigResourceType.TOPIC, [topic.name])[topic.name]
    if isinstance(configs, BrokerError):
        raise configs
    return _answer(
        {
            "name": topic.name,
            "configs": {each.name: each.value for each in configs if not each.sensitive},
            "partitions": [_partition(each) for each in topic.partitions.values()],
        }
    )


def list_partitions(call: Call) -> Answer:
    return _answer([_partition(each) for each in _find(call).partitions.values()])


def get_partition(call: Call) -> Answer:
    return _answer(_partition(_find_partition(call)[1]))


def get_offsets(call: Call) -> Answer:
    topic, partition = _find_partition(call)
    where = TopicPartition(topic, partition.index)
    extent = extents(call.pool, [where])[where]
    if isinstance(extent, ClientError):
        raise extent
    return _answer({"beginning_offset": extent.start, "end_offset": extent.end})


def _answer(document: Any) -> Answer:
    return Answer(document, content_type=V2_TYPE)


def topic_error(error: BrokerError) -> RestError | BrokerError:
    """Return a missing topic as API v2 writes it."""
    if error.code in (ErrorCode.unknown_topic_or_partition, ErrorCode.invalid_topic_exception):
        return RestError(404, "Topic not found.", 40401)
    return error


def _find(call: Call) -> TopicMetadata:
    name = call.request.path["topic_name"]
    topic = call.pool.metadata([name]).topics.get(name)
    if topic is None:
        raise RestError(404, "Topic not found.", 40401)
    if topic.error is not None:
        raise topic_error(topic.error)
    return topic


def _find_partition(call: Call) -> tuple[str, PartitionMetadata]:
    topic = _find(call)
    text = call.request.path["partition_id"]
    index = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    partition = topic.partitions.get(index)
    if partition is None:
        raise RestError(404, "Partition not found.", 40402)
    return topic.name, partition


def _partition(partition: PartitionMetadata) -> dict[str, Any]:
    return {
        "partition": partition.index,
        "leader": partition.leader,
        "replicas": [
            {
                "broker": each,
                "leader": each == partition.leader,
                "in_sync": each in partition.in_sync,
            }
            for each in partition.replicas
        ],
    }
