"""DeleteRecords (21), versions 0 to 2: move the start of a partition up."""

from typing import Any

from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import code_of
from headrace.model.error import HeadraceError
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.DELETE_RECORDS

_NOTHING = -1


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(DeleteRecordsRequest)
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    await _delete(broker, call, topic.name, one) for one in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


async def _delete(
    broker: Broker, call: Call, topic: str, wanted: DeleteRecordsPartition
) -> dict[str, Any]:
    partition = broker.topics.find(topic, None, wanted.partition_index)
    if broker.guard.denies_topic(call, Operation.DELETE, topic):
        code, low = ErrorCode.topic_authorization_failed, _NOTHING
    elif partition is None:
        code, low = broker.topics.missing_code(topic, None, wanted.partition_index), _NOTHING
    elif not partition.log.config.deleted:
        code, low = ErrorCode.policy_violation, _NOTHING
    else:
        log = partition.log
        try:
            low = await broker.in_thread(lambda: int(log.delete_records(wanted.offset)))
            code = ErrorCode.none
        except HeadraceError as error:
            code, low = code_of(error), _NOTHING
    return {"partition_index": wanted.partition_index, "low_watermark": low, "error_code": code}
