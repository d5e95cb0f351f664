"""ListOffsets (2), versions 1 to 11: offsets at the ends of a partition, or by time.

A new leader's high watermark may be lower for a moment than the one its predecessor sent to
readers. Until it has come up to where the leader began, its end is not sent to clients, so that no
position moves back (KIP-207).
"""

from collections import Counter
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeAlias, cast

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import code_of
from headrace.broker.replica.partition import Partition
from headrace.log.partition.timestamp_search import FoundRecord
from headrace.model.error import HeadraceError
from headrace.model.offset import NO_TIMESTAMP_MS
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.list_offsets import (
    ListedOffset,
    ListOffsetsRequest,
    WantedOffset,
    pack_list_offsets_response,
)

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


Fields: TypeAlias = dict[str, Any]
"""What is answered for one partition, or for all, where something went wrong or was searched."""

Search: TypeAlias = Callable[[], Coroutine[Any, Any, Fields]]
"""Finds the answer for one partition in a thread."""

Topics: TypeAlias = list[tuple[str, list[ListedOffset | Fields | Search]]]


def handle(broker: Broker, call: Call) -> tuple[bytes] | Fields | Coroutine[Any, Any, Fields]:
    """Answer at once where no partition is searched by time: consumers ask for the ends of each
    partition that they begin to read, and librdkafka in a request for each."""
    request: ListOffsetsRequest = call.body
    committed = request.isolation_level == READ_COMMITTED
    from_client = request.replica_id == _CONSUMER
    topics: Topics = [
        (
            topic.name,
            [
                _answer(broker, call, topic.name, wanted, committed, from_client)
                for wanted in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    kinds = {type(answer) for _, answers in topics for answer in answers}
    if kinds <= {ListedOffset}:
        header = call.request.header
        listed = cast(list[tuple[str, list[ListedOffset]]], topics)
        return (pack_list_offsets_response(header.api_version, header.correlation_id, listed),)
    if kinds <= {ListedOffset, dict}:
        return {
            "topics": [
                {"name": name, "partitions": [_fields(cast(Any, each)) for each in answers]}
                for name, answers in topics
            ]
        }
    return _searched(call, request, topics)


async def _searched(call: Call, request: ListOffsetsRequest, topics: Topics) -> Fields:
    """Search one partition after the other, for as long as the client waits for the answer.

    A partition that is to be searched twice is refused each time, as Kafka refuses a partition that
    is listed twice: one request could have its disk read for hours.
    """
    indexes = [[wanted[0] for wanted in topic.partitions] for topic in request.topics]
    searches = Counter(
        (name, index)
        for (name, answers), asked in zip(topics, indexes, strict=True)
        for answer, index in zip(answers, asked, strict=True)
        if not isinstance(answer, dict | ListedOffset)
    )
    answered = []
    for (name, answers), asked in zip(topics, indexes, strict=True):
        partitions = []
        for answer, index in zip(answers, asked, strict=True):
            if isinstance(answer, dict | ListedOffset):
                partitions.append(_fields(answer))
            elif searches[name, index] > 1:
                code = ErrorCode.invalid_request
                partitions.append({"partition_index": index, "error_code": code})
            elif call.connection.is_hung_up:
                return {"topics": []}
            else:
                partitions.append(await answer())
        answered.append({"name": name, "partitions": partitions})
    return {"topics": answered}


def _fields(answer: ListedOffset | Fields) -> Fields:
    if isinstance(answer, dict):
        return answer
    return {
        "partition_index": answer.partition,
        "timestamp": answer.timestamp,
        "offset": answer.offset,
        "leader_epoch": answer.leader_epoch,
    }


def _answer(
    broker: Broker,
    call: Call,
    topic: str,
    wanted: WantedOffset,
    committed: bool,
    from_client: bool,
) -> ListedOffset | Fields | Search:
    index, claimed_epoch, timestamp = wanted
    partition = broker.topics.find(topic, None, index)
    if broker.guard.denies_topic(call, Operation.DESCRIBE, topic):
        code: int = ErrorCode.topic_authorization_failed
    elif partition is None:
        code = broker.topics.missing_code(topic, None, index)
    else:
        code = partition.check_epoch(claimed_epoch)
    if partition is None or code:
        return {"partition_index": index, "error_code": code}
    log = partition.log
    lags = from_client and partition.state.high_watermark_lags
    if timestamp == LATEST:
        if lags:
            return _not_available(call, index)
        end = log.last_stable_offset if committed else log.high_watermark
        return ListedOffset(index, NO_TIMESTAMP_MS, end, partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return ListedOffset(index, NO_TIMESTAMP_MS, log.log_start_offset, partition.leader_epoch)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _listed(index, FoundRecord())
    end = log.last_stable_offset if committed else log.high_watermark
    return partial(_search, broker, call, partition, timestamp, end, lags)


async def _search(
    broker: Broker, call: Call, partition: Partition, timestamp: int, end: int, lags: bool
) -> Fields:
    """Search by time. That opens batches: off the loop, so that no other client waits for it."""
    log, index = partition.log, partition.name.partition
    try:
        if timestamp == MAX_TIMESTAMP:
            found = await broker.in_thread(log.offset_of_max_timestamp)
        else:
            found = await broker.in_thread(
                lambda: log.offset_for_timestamp(timestamp, max_offset=end)
            )
    except HeadraceError as error:
        return {"partition_index": index, "error_code": code_of(error)}
    if 0 <= found.offset < end:
        return _fields(_listed(index, found))
    return _not_available(call, index) if lags else _fields(_listed(index, FoundRecord()))


def _listed(index: int, found: FoundRecord) -> ListedOffset:
    return ListedOffset(index, found.timestamp_ms, found.offset, found.leader_epoch)


def _not_available(call: Call, index: int) -> Fields:
    """Answer while an offset lies past a high watermark that lags."""
    code = (
        ErrorCode.offset_not_available
        if call.version >= _FIRST_OFFSET_NOT_AVAILABLE
        else ErrorCode.leader_not_available
    )
    return {"partition_index": index, "error_code": code}
