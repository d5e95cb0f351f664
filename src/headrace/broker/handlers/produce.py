"""Produce (0), versions 3 to 13: append batches, answer when they are as safe as was asked.

With acks=0 nothing is answered; as in Kafka, an error then closes the connection, because that is
the only way the client can notice.
"""

import asyncio
from collections.abc import Sequence

from headrace.broker.call import Call
from headrace.broker.connection import Answer, Parts
from headrace.broker.fault import code_of
from headrace.broker.node import Broker
from headrace.broker.partition import Partition
from headrace.log.append import Appended
from headrace.model.error import HeadraceError, PeerError
from headrace.records.batch import Batch
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.produce_request import ProducePartition, ProduceRequest, ProduceTopic
from headrace.wire.produce_response import (
    ProducePartitionResult,
    ProduceTopicResult,
    pack_produce_response,
)

API = ApiKey.PRODUCE

_ACKS = (-1, 0, 1)
_FIRST_IMPLICIT_JOIN = 12  # KIP-890: a produce adds its partition to the transaction


class UnansweredError(PeerError):
    """A produce with acks=0 failed; the connection is closed so that the client asks again."""


def handle(broker: Broker, call: Call) -> Answer:
    request: ProduceRequest = call.body
    if request.acks not in _ACKS:
        return _pack(broker, call, request, _refuse(request, ErrorCode.invalid_required_acks))
    results, unsynced = _append_all(broker, call, request)
    if request.acks == 0:
        _close_on_error(results)
        return None
    if not unsynced:
        return _pack(broker, call, request, results)
    future: asyncio.Future[Parts | None] = broker.loop.create_task(
        _answer_when_synced(broker, call, request, results, unsynced)
    )
    return future


Unsynced = list[tuple[int, int, "asyncio.Future[object]"]]
"""Which topic, which partition in it, and when its records are on disk."""


def _append_all(
    broker: Broker, call: Call, request: ProduceRequest
) -> tuple[list[ProduceTopicResult], Unsynced]:
    results: list[ProduceTopicResult] = []
    unsynced: Unsynced = []
    for topic in request.topics:
        partitions: list[ProducePartitionResult] = []
        for produced in topic.partitions:
            result, appended_to, end = _append(broker, call, request, topic, produced)
            if appended_to is not None and appended_to.log.config.flush_messages == 1:
                synced = broker.when_synced(appended_to, end)
                unsynced.append((len(results), len(partitions), synced))
            partitions.append(result)
        results.append(ProduceTopicResult(topic.name, topic.topic_id, partitions))
    return results, unsynced


def _append(
    broker: Broker,
    call: Call,
    request: ProduceRequest,
    topic: ProduceTopic,
    produced: ProducePartition,
) -> tuple[ProducePartitionResult, Partition | None, int]:
    partition = broker.find(topic.name, topic.topic_id, produced.partition)
    if partition is None:
        missing = (
            ErrorCode.unknown_topic_or_partition
            if topic.topic_id is None
            else ErrorCode.unknown_topic_id
        )
        return ProducePartitionResult(produced.partition, missing), None, 0
    try:
        if produced.records is None:
            raise PeerError("a produce request holds no records")
        if request.transactional_id is not None:
            broker.transactions.join(
                request.transactional_id,
                partition.name,
                Batch(produced.records),
                implicit=call.version >= _FIRST_IMPLICIT_JOIN,
            )
        appended = partition.append(produced.records)
    except HeadraceError as error:
        return _failed(produced.partition, error), None, 0
    return _succeeded(produced.partition, appended), partition, appended.last_offset + 1


def _succeeded(index: int, appended: Appended) -> ProducePartitionResult:
    return ProducePartitionResult(
        index,
        0,
        appended.base_offset,
        appended.log_append_time_ms,
        appended.log_start_offset,
    )


def _failed(index: int, error: HeadraceError) -> ProducePartitionResult:
    return ProducePartitionResult(index, code_of(error), error_message=str(error))


def _refuse(request: ProduceRequest, code: ErrorCode) -> list[ProduceTopicResult]:
    return [
        ProduceTopicResult(
            topic.name,
            topic.topic_id,
            [ProducePartitionResult(produced.partition, code) for produced in topic.partitions],
        )
        for topic in request.topics
    ]


def _close_on_error(results: Sequence[ProduceTopicResult]) -> None:
    for topic in results:
        for partition in topic.partitions:
            if partition.error_code:
                raise UnansweredError(
                    f"a produce with acks=0 failed with code {partition.error_code}"
                )


async def _answer_when_synced(
    broker: Broker,
    call: Call,
    request: ProduceRequest,
    results: list[ProduceTopicResult],
    unsynced: Unsynced,
) -> Parts:
    for topic, partition, synced in unsynced:
        try:
            await synced
        except HeadraceError as error:
            partitions = results[topic].partitions
            assert isinstance(partitions, list)
            partitions[partition] = _failed(partitions[partition].partition, error)
    return _pack(broker, call, request, results)


def _pack(
    broker: Broker, call: Call, request: ProduceRequest, results: list[ProduceTopicResult]
) -> Parts:
    throttle_ms = 0
    if broker.quotas.active:
        size = sum(len(p.records or b"") for topic in request.topics for p in topic.partitions)
        throttle_ms = broker.quotas.throttle_produce(call, size)
    return (
        pack_produce_response(
            call.version, call.request.header.correlation_id, results, throttle_ms=throttle_ms
        ),
    )
