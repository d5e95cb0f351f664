"""ListOffsets (2), versions 1 to 11: offsets at the ends of a partition, or by time.

A new leader's high watermark may be lower for a moment than the one its predecessor sent to
readers. Until it has come up to where the leader began, its end is not sent to clients, so that no
position moves back (KIP-207).
"""

from typing import Any

from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import code_of
from headrace.broker.replica.partition import Partition
from headrace.log.partition.timestamp_search import FoundRecord
from headrace.model.error import HeadraceError
from headrace.model.offset import NO_TIMESTAMP_MS, Offset
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.LIST_OFFSETS

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3  # KIP-734
EARLIEST_LOCAL = -4  # KIP-405: everything we have is local
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

READ_COMMITTED = 1
_CONSUMER = -1
_FIRST_OFFSET_NOT_AVAILABLE = 5


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(ListOffsetsRequest)
    committed = request.isolation_level == READ_COMMITTED
    from_client = request.replica_id == _CONSUMER
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    await _answer(broker, call, topic.name, wanted, committed, from_client)
                    for wanted in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


async def _answer(
    broker: Broker,
    call: Call,
    topic: str,
    wanted: ListOffsetsPartition,
    committed: bool,
    from_client: bool,
) -> dict[str, Any]:
    partition = broker.topics.find(topic, None, wanted.partition_index)
    if broker.guard.denies_topic(call, Operation.DESCRIBE, topic):
        code: int = ErrorCode.topic_authorization_failed
    elif partition is None:
        code = broker.topics.missing_code(topic, None, wanted.partition_index)
    else:
        code = partition.check_epoch(wanted.current_leader_epoch)
    if partition is None or code:
        return {"partition_index": wanted.partition_index, "error_code": code}
    try:
        found = await _find(broker, partition, wanted.timestamp, committed, from_client)
    except HeadraceError as error:
        return {"partition_index": wanted.partition_index, "error_code": code_of(error)}
    if found is None:
        return {
            "partition_index": wanted.partition_index,
            "error_code": ErrorCode.offset_not_available
            if call.version >= _FIRST_OFFSET_NOT_AVAILABLE
            else ErrorCode.leader_not_available,
        }
    return {
        "partition_index": wanted.partition_index,
        "timestamp": found.timestamp_ms,
        "offset": found.offset,
        "leader_epoch": found.leader_epoch,
    }


async def _find(
    broker: Broker, partition: Partition, timestamp: int, committed: bool, from_client: bool
) -> FoundRecord | None:
    """Return what was asked for; None while it lies past a high watermark that lags."""
    log = partition.log
    end = log.last_stable_offset if committed else log.high_watermark
    lags = from_client and partition.state.high_watermark_lags
    epoch = partition.leader_epoch
    if timestamp == LATEST:
        return None if lags else FoundRecord(NO_TIMESTAMP_MS, Offset(end), epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return FoundRecord(NO_TIMESTAMP_MS, Offset(log.log_start_offset), epoch)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return FoundRecord()
    # A search by time opens batches: off the loop, so that no other client waits for it.
    if timestamp == MAX_TIMESTAMP:
        found = await broker.in_thread(log.offset_of_max_timestamp)
    else:
        found = await broker.in_thread(lambda: log.offset_for_timestamp(timestamp, max_offset=end))
    if 0 <= found.offset < end:
        return found
    return None if lags else FoundRecord()
