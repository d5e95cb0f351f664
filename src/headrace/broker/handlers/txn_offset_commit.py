"""TxnOffsetCommit (28), versions 0 to 5: offsets that count when the transaction commits.

From version 5 on (KIP-890) this adds the group's offsets to the transaction; before, the client did
so with AddOffsetsToTxn.
"""

from collections.abc import Callable
from typing import Any

from kio.schema.txn_offset_commit.v5.request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
)

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.error_mapping import group_code, join_code
from headrace.broker.handlers.add_offsets_to_txn import offsets_partition
from headrace.broker.replica.topic_table import HostedTopic
from headrace.groups.effect import Producer
from headrace.groups.offset.message import CommitReply, CommitRequest, OffsetToCommit
from headrace.model.error import HeadraceError, InvalidArgument
from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition
from headrace.transactions.message import AddPartitions
from headrace.transactions.metadata import CLASSIC_VERSION, EPOCH_BUMP_VERSION
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

API = ApiKey.TXN_OFFSET_COMMIT

_FIRST_IMPLICIT_JOIN = 5


async def handle(broker: Broker, call: Call) -> dict[str, Any]:
    request = call.read(TxnOffsetCommitRequest)
    refusal = _denied(broker, call, request) or await _join(broker, call, request)
    if refusal:
        return _answer(request, lambda name: refusal)
    denied: set[str] = {
        topic.name
        for topic in request.topics
        if broker.guard.denies_topic(call, Operation.READ, topic.name)
    }
    commit = _commit(broker, request, denied)
    reply: CommitReply = await broker.groups.handle(commit)

    def code(name: TopicPartition) -> ErrorCode:
        if name.topic in denied:
            return ErrorCode.topic_authorization_failed
        if name not in commit.offsets:
            return ErrorCode.unknown_topic_or_partition
        return group_code(reply.error or reply.errors.get(name))

    return _answer(request, code)


def _denied(broker: Broker, call: Call, request: TxnOffsetCommitRequest) -> ErrorCode:
    if broker.guard.denies_transactional_id(call, Operation.WRITE, request.transactional_id):
        return ErrorCode.transactional_id_authorization_failed
    if broker.guard.denies_group(call, Operation.READ, request.group_id):
        return ErrorCode.group_authorization_failed
    return ErrorCode.none


async def _join(broker: Broker, call: Call, request: TxnOffsetCommitRequest) -> ErrorCode:
    """Return no error when the group's offsets are part of the transaction."""
    implicit = call.version >= _FIRST_IMPLICIT_JOIN
    try:
        partition = await offsets_partition(broker, request.group_id)
    except InvalidArgument:
        return ErrorCode.invalid_request
    except HeadraceError:
        return ErrorCode.coordinator_not_available
    refused = await broker.transactions.joined(
        AddPartitions(
            transactional_id=request.transactional_id,
            producer_id=ProducerId(request.producer_id),
            producer_epoch=ProducerEpoch(request.producer_epoch),
            partitions=frozenset((partition,)),
            client_version=EPOCH_BUMP_VERSION if implicit else CLASSIC_VERSION,
        ),
        implicit=implicit,
    )
    if partition in refused:
        return join_code(refused[partition], "TxnOffsetCommit", call.version)
    return ErrorCode.none


def _commit(broker: Broker, request: TxnOffsetCommitRequest, denied: set[str]) -> CommitRequest:
    """Return the offsets of partitions that exist, each with the id of its topic: when that is
    deleted and created again, they are not offsets of the new one."""
    topics = {each.name: broker.topics.by_name(each.name) for each in request.topics}
    return CommitRequest(
        group_id=request.group_id,
        member_id=request.member_id,
        generation=request.generation_id,
        instance_id=request.group_instance_id,
        offsets={
            TopicPartition(topic.name, each.partition_index): _offset(topic, each)
            for named in request.topics
            if named.name not in denied and (topic := topics[named.name]) is not None
            for each in named.partitions
            if 0 <= each.partition_index < len(topic.partitions)
        },
        producer=Producer(ProducerId(request.producer_id), ProducerEpoch(request.producer_epoch)),
    )


def _offset(topic: HostedTopic, partition: TxnOffsetCommitRequestPartition) -> OffsetToCommit:
    return OffsetToCommit(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        topic_id=topic.topic_id,
    )


def _answer(
    request: TxnOffsetCommitRequest, code: Callable[[TopicPartition], ErrorCode]
) -> dict[str, Any]:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": each.partition_index,
                        "error_code": code(TopicPartition(topic.name, each.partition_index)),
                    }
                    for each in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }
