"""DeleteRecords (21), versions 0 to 2: move the start of a partition up.

The leader moves its own log start at once. Its followers learn of it with their next fetch, and the
response waits for those that are running, as long as the request allows: after that, none of them
can lead and serve the records again.
"""

import asyncio
from typing import Any

from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call, milliseconds
from headrace.broker.error_mapping import code_of
from headrace.broker.network.callback_future import future_of
from headrace.broker.replica.partition import Partition
from headrace.model.error import HeadraceError
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.DELETE_RECORDS

_NOTHING = -1
# How often to look whether a follower that was waited for is still running.
_LOOK_SECONDS = 0.25


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(DeleteRecordsRequest)
    deadline = broker.loop.time() + milliseconds(request.timeout) / 1000
    wanted = [(topic.name, one) for topic in request.topics for one in topic.partitions]
    done = await asyncio.gather(
        *[_delete(broker, call, name, one, deadline) for name, one in wanted]
    )
    results = iter(done)
    return {
        "topics": [
            {"name": topic.name, "partitions": [next(results) for _ in topic.partitions]}
            for topic in request.topics
        ]
    }


async def _delete(
    broker: Broker, call: Call, topic: str, wanted: DeleteRecordsPartition, deadline: float
) -> dict[str, Any]:
    partition = broker.topics.find(topic, None, wanted.partition_index)
    low = _NOTHING
    if broker.guard.denies_topic(call, Operation.DELETE, topic):
        code = ErrorCode.topic_authorization_failed
    elif partition is None:
        code = broker.topics.missing_code(topic, None, wanted.partition_index)
    elif not partition.log.config.deleted:
        code = ErrorCode.policy_violation
    else:
        log = partition.log
        try:
            start = await broker.in_thread(lambda: int(log.delete_records(wanted.offset)))
            partition.announce_log_start()
            code = await _replicas_moved(broker, partition, start, deadline)
            low = _NOTHING if code else partition.low_watermark(broker.members)
        except HeadraceError as error:
            code = code_of(error)
    return {"partition_index": wanted.partition_index, "low_watermark": low, "error_code": code}


async def _replicas_moved(
    broker: Broker, partition: Partition, start: int, deadline: float
) -> ErrorCode:
    """Wait until the log of every replica that is running starts at `start` or later."""
    moved: asyncio.Future[object] | None = None
    try:
        while partition.low_watermark(broker.members) < start:
            left = deadline - broker.loop.time()
            if partition.resigned:
                return ErrorCode.not_leader_or_follower
            if left <= 0:
                return ErrorCode.request_timed_out
            if moved is None or moved.done():
                moved = future_of(partition.when_log_start_moves(), broker.loop)
            await asyncio.wait([moved], timeout=min(left, _LOOK_SECONDS))
    finally:
        if moved is not None:
            moved.cancel()
    return ErrorCode.none
