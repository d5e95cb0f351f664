"""Produce (0), versions 3 to 13: append batches, and answer when they are as safe as acks asks.

Requests that repeat themselves come here only once: `broker.fastpath.produce` serves the next ones.

A batch that its topic inflates, compresses or checks for schemas is opened in a thread
(`replica.batch_opener`), and appended after those before it, if its transaction has not ended.

With acks=0 nothing is answered; as in Kafka, an error then closes the connection, because that is
the only way the client can notice.

A transactional batch is appended only when its partition is in the transaction (`_join`); the flag
in the batch decides, not the transactional id of the request. So that the flag can be trusted, a
request holds one batch per partition, as in Kafka.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import TypeAlias

from headrace.broker.auth.resource import Operation
from headrace.broker.broker import Broker
from headrace.broker.call import Call
from headrace.broker.config.internal_topic import INTERNAL
from headrace.broker.coordinator.key_queue import Ticket
from headrace.broker.error_mapping import code_of, join_code
from headrace.broker.network.callback_future import CallbackFuture, future_of
from headrace.broker.network.connection import Answer, Parts
from headrace.broker.refusal_log import log_refusals, refusals_are_logged
from headrace.broker.refused_part import RefusedPart
from headrace.broker.replica.delayed_produce import DelayedProduce, Failures, Safe
from headrace.broker.replica.partition import Partition
from headrace.broker.replica.refused_batch import NumberedBatch
from headrace.log.partition.appended import Appended
from headrace.model.error import (
    CorruptBatch,
    HeadraceError,
    InvalidRecord,
    PeerError,
    RefusedRecords,
    RequestTimedOut,
)
from headrace.model.ids import ProducerEpoch, ProducerId, TopicPartition
from headrace.records.batch import (
    ATTRIBUTES_AT,
    HEADER_BYTES,
    LENGTH_AT,
    LOG_OVERHEAD,
    PRODUCER_ID_AT,
    TRANSACTIONAL_BIT,
    Batch,
)
from headrace.transactions.error import TransactionError
from headrace.transactions.message import AddPartitions
from headrace.transactions.metadata import CLASSIC_VERSION, EPOCH_BUMP_VERSION
from headrace.wire.api import APIS, ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.produce_request import ProducePartition, ProduceRequest, ProduceTopic
from headrace.wire.produce_response import (
    ProducePartitionResult,
    ProduceTopicResult,
    RecordError,
    pack_produce_response,
)

API = ApiKey.PRODUCE

_NAME = APIS[API].name
_ALL = -1
_ACKS = (_ALL, 0, 1)
_FIRST_IMPLICIT_JOIN = 12  # KIP-890: a produce adds its partition to the transaction
_FLAGS_AT = ATTRIBUTES_AT + 1
_LENGTH = Struct(">i")
_PRODUCER = Struct(">qh")


class UnansweredError(PeerError):
    """A produce with acks=0 failed; the connection is closed so that the client notices."""


def handle(broker: Broker, call: Call) -> Answer:
    request: ProduceRequest = call.body
    if request.acks not in _ACKS:
        return _pack(broker, call, request, _refuse(request, ErrorCode.invalid_required_acks))
    if not _is_transactional(request):
        return _append_all(broker, call, request, {})
    named = request.transactional_id
    # Kafka answers a missing transactional id like one that the client may not use.
    if named is None or broker.guard.denies_transactional_id(call, Operation.WRITE, named):
        code = ErrorCode.transactional_id_authorization_failed
        return _answer(broker, call, request, _refuse(request, code), [])
    if named not in broker.transactions.produce_queue:
        joined = _join(broker, call, request)
        if not isinstance(joined, asyncio.Future):
            return _append_all(broker, call, request, joined)
    ticket = broker.transactions.produce_queue.enqueue(named)
    task = broker.loop.create_task(_append_when_joined(broker, call, request, ticket))
    # Also when the client goes away before the task has begun.
    task.add_done_callback(lambda _: ticket.done())
    return task


Refused = Mapping[TopicPartition, ErrorCode]
"""Partitions whose transactional batch must not be appended."""

Appending: TypeAlias = "Parts | CallbackFuture[Parts | None] | asyncio.Future[Parts | None] | None"
"""The response, a future of it, or None with acks=0."""

AppendOutcome: TypeAlias = "tuple[ProducePartitionResult, Safe | None]"
"""What became of one partition's batch, and what the response must wait for."""

Unsafe = list[tuple[int, int, Safe]]
"""Positions of a topic and of a partition in it, and when its records are as safe as acks asks."""


# -- transactions


def _is_transactional(request: ProduceRequest) -> bool:
    for topic in request.topics:
        for _, records in topic.partitions:
            if records and len(records) > _FLAGS_AT and records[_FLAGS_AT] & TRANSACTIONAL_BIT:
                return True
    return False


def _join(broker: Broker, call: Call, request: ProduceRequest) -> "Refused | asyncio.Future[None]":
    """Return the partitions that are refused; or a future: call again when it is done."""
    batches = _transactional_batches(broker, call, request)
    if not batches:
        return {}
    implicit = call.version >= _FIRST_IMPLICIT_JOIN
    partitions = frozenset(name for name, _ in batches)
    producer, *others = {each for _, each in batches}
    if others:
        error = TransactionError.INVALID_PRODUCER_ID_MAPPING
        return dict.fromkeys(partitions, join_code(error, "Produce", call.version))
    joined = broker.transactions.join(
        AddPartitions(
            transactional_id=request.transactional_id or "",
            producer_id=ProducerId(producer[0]),
            producer_epoch=ProducerEpoch(producer[1]),
            partitions=partitions,
            client_version=EPOCH_BUMP_VERSION if implicit else CLASSIC_VERSION,
        ),
        implicit=implicit,
    )
    if isinstance(joined, asyncio.Future):
        return joined
    return {name: join_code(error, "Produce", call.version) for name, error in joined.items()}


def _transactional_batches(
    broker: Broker, call: Call, request: ProduceRequest
) -> list[tuple[TopicPartition, tuple[int, int]]]:
    """Return the partition, and producer id and epoch, of each transactional batch: a request may
    name a partition twice. The log refuses what is broken in them."""
    batches: list[tuple[TopicPartition, tuple[int, int]]] = []
    for topic in request.topics:
        if broker.guard.denies_topic(call, Operation.WRITE, topic.name, topic.topic_id):
            continue
        for index, records in topic.partitions:
            if records is None or len(records) < HEADER_BYTES:
                continue
            if not records[_FLAGS_AT] & TRANSACTIONAL_BIT:
                continue
            partition = broker.topics.find(topic.name, topic.topic_id, index)
            # A mirror refuses the batch, and must not join the transaction before.
            if partition is not None and not partition.log.config.headrace_mirror_link:
                producer = _PRODUCER.unpack_from(records, PRODUCER_ID_AT)
                batches.append((partition.name, producer))
    return batches


async def _append_when_joined(
    broker: Broker, call: Call, request: ProduceRequest, ticket: Ticket
) -> Parts | None:
    """Append after the earlier requests of the same producer, and answer.

    A producer sends up to five requests without waiting for a response, and numbers its records
    over all of them: the next must not be appended before this one."""
    await ticket.wait()
    while isinstance(joined := _join(broker, call, request), asyncio.Future):
        await asyncio.wait((joined,))
    answer = _append_all(broker, call, request, joined)
    # Batches that are being opened have their place in the queue of their partition by now.
    ticket.done()
    return await _settled(broker, answer)


async def _settled(broker: Broker, answer: Appending) -> Parts | None:
    if isinstance(answer, CallbackFuture):
        return await future_of(answer, broker.loop)
    return await answer if isinstance(answer, asyncio.Future) else answer


# -- appending


def _append_all(broker: Broker, call: Call, request: ProduceRequest, refused: Refused) -> Appending:
    """Append each partition's batch, and answer. Every Produce request but those of the fast path
    goes through here."""
    results: list[ProduceTopicResult] = []
    unsafe: Unsafe = []
    opening: list[tuple[int, int, asyncio.Future[AppendOutcome]]] = []
    implicit = call.version >= _FIRST_IMPLICIT_JOIN
    for topic in request.topics:
        partitions: list[ProducePartitionResult] = []
        if broker.guard.authorizer is not None and broker.guard.denies_topic(
            call, Operation.WRITE, topic.name, topic.topic_id
        ):
            results.append(_refuse_topic(topic, ErrorCode.topic_authorization_failed))
            continue
        for produced in topic.partitions:
            outcome = _append(broker, topic, produced, refused, implicit, request.acks)
            if isinstance(outcome, asyncio.Future):
                opening.append((len(results), len(partitions), outcome))
                partitions.append(ProducePartitionResult(produced.partition))
                continue
            result, safe = outcome
            if safe is not None:
                unsafe.append((len(results), len(partitions), safe))
            partitions.append(result)
        results.append(ProduceTopicResult(topic.name, topic.topic_id, partitions))
    if opening:
        return broker.loop.create_task(
            _answer_when_opened(broker, call, request, results, unsafe, opening)
        )
    return _answer(broker, call, request, results, unsafe)


async def _answer_when_opened(
    broker: Broker,
    call: Call,
    request: ProduceRequest,
    results: list[ProduceTopicResult],
    unsafe: Unsafe,
    opening: "list[tuple[int, int, asyncio.Future[AppendOutcome]]]",
) -> Parts | None:
    """Answer when the batches that had to be opened are appended, or refused."""
    for topic, partition, opened in opening:
        partitions = results[topic].partitions
        assert isinstance(partitions, list)
        partitions[partition], safe = await opened
        if safe is not None:
            unsafe.append((topic, partition, safe))
    return await _settled(broker, _answer(broker, call, request, results, unsafe))


def _append(
    broker: Broker,
    topic: ProduceTopic,
    produced: ProducePartition,
    refused: Refused,
    implicit: bool,
    acks: int,
) -> "AppendOutcome | asyncio.Future[AppendOutcome]":
    """Append one partition's batch; return a future where it must be opened first."""
    index, records = produced
    partition = broker.topics.find(topic.name, topic.topic_id, index)
    if partition is None:
        missing = broker.topics.missing_code(topic.name, topic.topic_id, index)
        hint = broker.topics.leader_hint(topic.name, topic.topic_id, index)
        refusal = ProducePartitionResult(index, missing, leader=hint)
        return _not_appended(broker, topic, produced, refusal)
    if partition.name.topic in INTERNAL:
        # Only the coordinators write there: what they cannot read they could not load again.
        return ProducePartitionResult(index, ErrorCode.invalid_topic_exception), None
    if refused and partition.name in refused:
        refusal = ProducePartitionResult(index, refused[partition.name])
        return _not_appended(broker, topic, produced, refusal)
    opening = broker.batch_opener.opening
    waits = bool(opening) and partition.name in opening
    if records and not waits:
        appended = partition.append_plain(records, acks_all=acks == _ALL, joined=True)
        if appended is not None:
            return _appended(broker, partition, appended, acks)
    try:
        batch = _one_batch(records)
    except HeadraceError as error:
        return _failed(index, error), None
    transactional = bool(batch[_FLAGS_AT] & TRANSACTIONAL_BIT)
    strict = implicit and transactional

    def append(admitted: "Callable[[], list[Batch]] | None" = None) -> AppendOutcome:
        if earlier := _refused_with_earlier(broker, topic, produced, partition):
            return earlier, None
        try:
            appended = partition.append(
                batch,
                strict_start=strict,
                acks_all=acks == _ALL,
                admitted=None if admitted is None else admitted(),
            )
        except HeadraceError as error:
            return _not_appended(broker, topic, produced, _failed(index, error))
        return _appended(broker, partition, appended, acks)

    if waits or partition.log.must_open(batch):
        try:
            return broker.batch_opener.open(
                partition.name,
                batch,
                _admission(broker, partition, batch, transactional=transactional),
                append,
                transaction_of=_PRODUCER.unpack_from(batch, PRODUCER_ID_AT)[0]
                if transactional
                else None,
            )
        except RequestTimedOut as error:
            return _not_appended(broker, topic, produced, _failed(index, error))
    return append()


def _admission(
    broker: Broker, partition: Partition, batch: memoryview, *, transactional: bool
) -> "Callable[[bool], list[Batch]]":
    """Return what opens a batch in a thread, and checks its schemas where the topic asks for it."""
    schemas = broker.schema_checks.of(partition.name.topic, len(batch), transactional=transactional)
    return lambda patient: partition.log.admit(batch, patient=patient, check_schemas=schemas.check)


def _not_appended(
    broker: Broker, topic: ProduceTopic, produced: ProducePartition, refusal: ProducePartitionResult
) -> AppendOutcome:
    """Answer a batch that is not appended, and remember it if it will be sent again."""
    index, records = produced
    batch = NumberedBatch.of(topic.name or topic.topic_id, index, records)
    if batch is not None:
        broker.refused_batches.note(batch, refusal.error_code)
    return refusal, None


def _refused_with_earlier(
    broker: Broker, topic: ProduceTopic, produced: ProducePartition, partition: Partition
) -> ProducePartitionResult | None:
    """Return the answer to a batch that was sent after a refused one, else None."""
    if not len(broker.refused_batches):
        return None
    index, records = produced
    batch = NumberedBatch.of(topic.name or topic.topic_id, index, records)
    if batch is None:
        return None
    code = broker.refused_batches.take_reason(batch, partition.log.awaits_batch)
    if code is None:
        return None
    why = "a batch that its producer sent before this one was refused, and must come first"
    return ProducePartitionResult(index, code, error_message=why)


def _appended(broker: Broker, partition: Partition, appended: Appended, acks: int) -> AppendOutcome:
    base_offset, last_offset, append_time_ms, log_start, duplicate, size_bytes = appended
    if not duplicate:
        traffic = partition.traffic
        traffic.bytes_in += size_bytes
        traffic.records_in += last_offset - base_offset + 1
    index = partition.name.partition
    result = ProducePartitionResult(index, 0, base_offset, append_time_ms, log_start)
    if not partition.waits_before_answer:
        return result, None
    return result, _when_safe(broker, partition, last_offset + 1, acks)


def _when_safe(broker: Broker, partition: Partition, end: int, acks: int) -> "Safe | None":
    """Return what a response with these acks waits for; None when it need not wait."""
    if acks == _ALL:
        if not partition.syncs_before_answer:
            return partition.when_committed(end)
        return broker.when_safe(partition, end)
    if acks and partition.syncs_before_answer:
        return broker.when_synced(partition, end)
    return None


def _one_batch(records: memoryview | None) -> memoryview:
    if not records:
        raise InvalidRecord("a produce request holds one batch of records a partition, not none")
    if len(records) < HEADER_BYTES:
        raise CorruptBatch(f"a batch of records has a head of {HEADER_BYTES} bytes at least")
    (length,) = _LENGTH.unpack_from(records, LENGTH_AT)
    if HEADER_BYTES <= length + LOG_OVERHEAD < len(records):
        raise InvalidRecord("a produce request holds one batch of records a partition, not several")
    return records


def _answer(
    broker: Broker,
    call: Call,
    request: ProduceRequest,
    results: list[ProduceTopicResult],
    unsafe: Unsafe,
) -> Appending:
    for topic in results:
        for partition in topic.partitions:
            if partition.error_code:
                broker.metrics.errors[_NAME, partition.error_code] += 1
    if refusals_are_logged():
        log_refusals(call, _refused(results))
    if request.acks == 0:
        _close_on_error(results)
        _throttle(broker, call, request)
        return None
    if not unsafe and not broker.quotas.active and len(broker.members) <= 1:
        header = call.request.header
        return (pack_produce_response(header.api_version, header.correlation_id, results),)
    if not unsafe:
        return _pack(broker, call, request, results)

    def pack(failures: Failures) -> Parts:
        for (topic, partition, _), error in zip(unsafe, failures, strict=True):
            if error is not None:
                partitions = results[topic].partitions
                assert isinstance(partitions, list)
                partitions[partition] = failed = _failed(partitions[partition].partition, error)
                broker.metrics.errors[_NAME, failed.error_code] += 1
        if refusals_are_logged():
            log_refusals(call, _refused(results))
        return _pack(broker, call, request, results)

    return DelayedProduce(
        broker,
        [safe for _, _, safe in unsafe],
        timeout_ms=request.timeout_ms if request.acks == _ALL else None,
        pack=pack,
    ).response


def _refused(results: Sequence[ProduceTopicResult]) -> list[RefusedPart]:
    return [
        RefusedPart(
            f"{topic.name or topic.topic_id}-{partition.partition}",
            partition.error_code,
            partition.error_message,
        )
        for topic in results
        for partition in topic.partitions
        if partition.error_code
    ]


def _failed(index: int, error: HeadraceError) -> ProducePartitionResult:
    errors = error.record_errors if isinstance(error, RefusedRecords) else ()
    return ProducePartitionResult(
        index,
        code_of(error),
        record_errors=tuple(RecordError(record, why) for record, why in errors),
        error_message=str(error),
    )


def _refuse(request: ProduceRequest, code: ErrorCode) -> list[ProduceTopicResult]:
    return [_refuse_topic(topic, code) for topic in request.topics]


def _refuse_topic(topic: ProduceTopic, code: ErrorCode) -> ProduceTopicResult:
    refused = [ProducePartitionResult(produced.partition, code) for produced in topic.partitions]
    return ProduceTopicResult(topic.name, topic.topic_id, refused)


def _close_on_error(results: Sequence[ProduceTopicResult]) -> None:
    for topic in results:
        for partition in topic.partitions:
            if partition.error_code:
                raise UnansweredError(
                    f"a produce with acks=0 failed with code {partition.error_code}"
                )


def _pack(
    broker: Broker, call: Call, request: ProduceRequest, results: list[ProduceTopicResult]
) -> Parts:
    hints = [
        partition.leader
        for topic in results
        for partition in topic.partitions
        if partition.leader is not None
    ]
    return (
        pack_produce_response(
            call.version,
            call.request.header.correlation_id,
            results,
            throttle_ms=_throttle(broker, call, request),
            node_endpoints=broker.cluster_view.leader_endpoints(call, hints) if hints else (),
        ),
    )


def _throttle(broker: Broker, call: Call, request: ProduceRequest) -> int:
    """Return for how many milliseconds the client must wait.

    With acks=0 no response can say so, and only its connection is muted.
    """
    if not broker.quotas.active:
        return 0
    size = sum(len(p.records or b"") for topic in request.topics for p in topic.partitions)
    return broker.quotas.throttle_produce(call, size)
