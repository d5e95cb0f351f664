"""The life of a transactional id, in pure functions: (metadata, event, now) -> record, reply.

Theory of operation
-------------------
A transactional id belongs to one producer at a time, the one that holds the newest epoch. Its
transaction goes round one ring:

    Empty ──add──> Ongoing ──end──> PrepareCommit ──all markers written──> CompleteCommit ─┐
      ^               ^        └──> PrepareAbort  ──all markers written──> CompleteAbort ──┤
      └──init─────────┼────────────────────────────────────────────────────────────────────┤
                      └──add───────────────────────────────────────────────────────────────┘

The Prepare record is the decision. Once it is in the log the transaction *will* end that way, after
any crash, by any coordinator; markers and the Complete record only carry the decision out.

Rules
-----
Rule 1: everything that decides about a transaction lives in this file. The registry only keeps the
        answers back until they are durable, and remembers which markers are still to be written.
Rule 2: while a change is being appended (`busy`) no other change starts; the producer gets
        CONCURRENT_TRANSACTIONS and retries.
Rule 3: epochs only grow. A new producer (InitProducerId without an epoch) gets epoch + 1, so every
        older one is fenced here, and by the markers on the partitions themselves.
Rule 4: a producer never holds the last epoch (32767). It is kept for the coordinator to fence with;
        a producer whose epochs are used up goes on with a new producer id at epoch 0.
Rule 5: InitProducerId into an open transaction aborts it under epoch + 1, an epoch that no
        producer has, and answers CONCURRENT_TRANSACTIONS; the retry finds it complete and gets
        the next epoch. A timeout does the same, without a request to answer.
Rule 6: with `client_version` 2 (KIP-890) the end itself bumps the epoch and returns the new one.
        A late record of the ended transaction can then never land in the next one. It also makes a
        retried EndTxn visible: it carries the epoch just below ours. With the older version a retry
        carries our epoch and is recognised by the Complete state alone.
Rule 7: the KIP-890 retry rule is only applied to a transaction that was ended by version 2. For any
        other one the epoch below ours belongs to a fenced producer.
Rule 8: an abort that the coordinator made looks like one by version 2, so that a producer whose
        transaction timed out may abort it and go on. A commit in flight then looks like a retry,
        too. No client asks for another end than it asked for first, so it was fenced: that is the
        answer (as Kafka since KAFKA-20785), and not INVALID_TXN_STATE, after which clients stop.
Rule 9: the answer to an end is sent before its markers are written, so the next transaction may
        come before them. Its producer has the next epoch, or the next producer id, and gets
        CONCURRENT_TRANSACTIONS until they are written, also for an end (as Kafka since
        KAFKA-18464): it has fenced no one, and no one has fenced it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from headrace.model.ids import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ProducerEpoch,
    ProducerId,
    TopicPartition,
)
from headrace.model.offset import NO_TIMESTAMP_MS
from headrace.transactions.error import TransactionError
from headrace.transactions.message import (
    AddPartitions,
    AddReply,
    Answer,
    EndReply,
    EndTransaction,
    InitProducerId,
    InitReply,
    VerifyReply,
)
from headrace.transactions.metadata import (
    EPOCH_BUMP_VERSION,
    MAX_EPOCH,
    TransactionMetadata,
    epoch_exhausted,
)
from headrace.transactions.state import TransactionState

MAX_TRANSACTIONAL_ID_BYTES = 2**15 - 1

TakeProducerId = Callable[[], ProducerId | None]
"""Returns a producer id never given before, or None while the next block is being fetched."""


@dataclass(frozen=True, slots=True)
class TransactionStep:
    """`metadata` is to be written first (None: nothing changes); then `answer` may go out.

    `fences`: it aborts an open transaction whose producer did not ask for that.
    """

    answer: Answer
    metadata: TransactionMetadata | None = None
    fences: bool = False


def init_producer_id(
    current: TransactionMetadata | None,
    event: InitProducerId,
    take_id: TakeProducerId,
    *,
    busy: bool,
    max_timeout_ms: int,
    now_ms: int,
) -> TransactionStep:
    """Give a new producer the id, or the same one a higher epoch after an error (KIP-360)."""
    epoch_given = event.producer_epoch != NO_PRODUCER_EPOCH
    if not _nameable(event.transactional_id) or event.resumes != epoch_given:
        return _no_init(TransactionError.INVALID_REQUEST)
    if not 0 < event.timeout_ms <= max_timeout_ms:
        return _no_init(TransactionError.INVALID_TRANSACTION_TIMEOUT)
    if busy:
        return _no_init(TransactionError.CONCURRENT_TRANSACTIONS)
    if current is None:
        return _create(event, take_id, now_ms)
    if _holds_next_id(current, event.producer_id, event.producer_epoch):
        return _no_init(TransactionError.CONCURRENT_TRANSACTIONS)
    if event.resumes and not _may_resume(current, event):
        return _no_init(TransactionError.PRODUCER_FENCED)
    if current.state.prepared:
        return _no_init(TransactionError.CONCURRENT_TRANSACTIONS)
    if current.state is TransactionState.ONGOING:
        return TransactionStep(
            InitReply(error=TransactionError.CONCURRENT_TRANSACTIONS),
            fence(current, now_ms),
            fences=True,
        )
    return _take_over(current, event, take_id, now_ms)


def _nameable(transactional_id: str) -> bool:
    """Return whether the key of its record can hold the id: it has two bytes for the length."""
    return 0 < len(transactional_id.encode()) <= MAX_TRANSACTIONAL_ID_BYTES


def _no_init(error: TransactionError) -> TransactionStep:
    return TransactionStep(InitReply(error=error))


def _may_resume(current: TransactionMetadata, event: InitProducerId) -> bool:
    """Return whether the id is the producer's own; `_take_over` checks its epoch.

    The previous id is right too when its epochs ran out: the reply with the new one was lost.
    """
    if event.producer_id == current.producer_id:
        return True
    return event.producer_id == current.previous_producer_id and epoch_exhausted(
        event.producer_epoch
    )


def _create(event: InitProducerId, take_id: TakeProducerId, now_ms: int) -> TransactionStep:
    producer_id = take_id()
    if producer_id is None:
        return _no_init(TransactionError.COORDINATOR_LOAD_IN_PROGRESS)
    return _initialised(
        TransactionMetadata(
            transactional_id=event.transactional_id,
            producer_id=producer_id,
            producer_epoch=ProducerEpoch(0),
            timeout_ms=event.timeout_ms,
            state=TransactionState.EMPTY,
            last_update_ms=now_ms,
            previous_producer_id=producer_id,
        )
    )


def _take_over(
    current: TransactionMetadata, event: InitProducerId, take_id: TakeProducerId, now_ms: int
) -> TransactionStep:
    producer_id, last_epoch = current.producer_id, NO_PRODUCER_EPOCH
    own_epoch = event.producer_epoch == current.producer_epoch
    if current.epoch_exhausted and (own_epoch or not event.resumes):
        rotated = take_id()
        if rotated is None:
            return _no_init(TransactionError.COORDINATOR_LOAD_IN_PROGRESS)
        producer_id, epoch = rotated, 0
        last_epoch = current.producer_epoch if event.resumes else NO_PRODUCER_EPOCH
    elif not event.resumes:
        epoch = current.producer_epoch + 1
    elif own_epoch:
        epoch, last_epoch = current.producer_epoch + 1, current.producer_epoch
    elif event.producer_epoch == current.last_producer_epoch:
        # A retry: the bump it asks for was made and the reply was lost. Had another producer come
        # in between, the last epoch would be unset.
        epoch, last_epoch = current.producer_epoch, current.last_producer_epoch
    else:
        return _no_init(TransactionError.PRODUCER_FENCED)
    return _initialised(
        replace(
            current,
            producer_id=producer_id,
            previous_producer_id=current.producer_id,
            producer_epoch=ProducerEpoch(epoch),
            last_producer_epoch=last_epoch,
            timeout_ms=event.timeout_ms,
            state=TransactionState.EMPTY,
            partitions=frozenset(),
            start_ms=NO_TIMESTAMP_MS,
            last_update_ms=now_ms,
        )
    )


def _initialised(metadata: TransactionMetadata) -> TransactionStep:
    answer = InitReply(producer_id=metadata.producer_id, producer_epoch=metadata.producer_epoch)
    return TransactionStep(answer, metadata)


def add_partitions(
    current: TransactionMetadata | None, event: AddPartitions, *, busy: bool, now_ms: int
) -> TransactionStep:
    """Add partitions to the open transaction, or open one."""
    error = _not_the_producer(current, event)
    if error is not None:
        return TransactionStep(AddReply(error=error))
    assert current is not None
    if busy or current.state.prepared:
        return TransactionStep(AddReply(error=TransactionError.CONCURRENT_TRANSACTIONS))
    ongoing = current.state is TransactionState.ONGOING
    if not event.partitions or (ongoing and event.partitions <= current.partitions):
        return TransactionStep(AddReply())
    return TransactionStep(
        AddReply(),
        replace(
            current,
            previous_producer_id=current.producer_id,
            state=TransactionState.ONGOING,
            partitions=current.partitions | event.partitions,
            start_ms=current.start_ms if ongoing else now_ms,
            last_update_ms=now_ms,
            client_version=event.client_version,
        ),
    )


def verify_partitions(current: TransactionMetadata | None, event: AddPartitions) -> VerifyReply:
    """Answer whether the partitions are in the open transaction, adding none (KIP-890 part 1)."""
    error = _not_the_producer(current, event)
    if error is not None:
        return VerifyReply(error=error)
    assert current is not None
    if current.state.prepared:
        return VerifyReply(error=TransactionError.CONCURRENT_TRANSACTIONS)

    def error_of(partition: TopicPartition) -> TransactionError:
        known = partition in current.partitions
        return TransactionError.NONE if known else TransactionError.TRANSACTION_ABORTABLE

    return VerifyReply(
        partitions={partition: error_of(partition) for partition in event.partitions}
    )


def _not_the_producer(
    current: TransactionMetadata | None, event: AddPartitions
) -> TransactionError | None:
    if not event.transactional_id:
        return TransactionError.INVALID_REQUEST
    if current is None:
        return TransactionError.INVALID_PRODUCER_ID_MAPPING
    if _holds_next_id(current, event.producer_id, event.producer_epoch):
        return TransactionError.CONCURRENT_TRANSACTIONS
    if current.producer_id != event.producer_id:
        return TransactionError.INVALID_PRODUCER_ID_MAPPING
    if current.producer_epoch != event.producer_epoch:
        return TransactionError.PRODUCER_FENCED
    return None


def _holds_next_id(
    current: TransactionMetadata, producer_id: ProducerId, producer_epoch: ProducerEpoch
) -> bool:
    """Return whether a producer got this new id for its next transaction (rule 4), while the
    markers of the last one are still being written."""
    return (
        current.next_producer_id != NO_PRODUCER_ID
        and producer_id == current.next_producer_id
        and producer_epoch == 0
    )


def end_transaction(
    current: TransactionMetadata | None,
    event: EndTransaction,
    take_id: TakeProducerId,
    *,
    busy: bool,
    now_ms: int,
) -> TransactionStep:
    """Decide the transaction, or recognise a retry of the request that decided it."""
    if not event.transactional_id:
        return _no_end(TransactionError.INVALID_REQUEST)
    if current is None:
        return _no_end(TransactionError.INVALID_PRODUCER_ID_MAPPING)
    if event.client_version >= EPOCH_BUMP_VERSION:
        return _end_and_bump(current, event, take_id, busy=busy, now_ms=now_ms)
    return _end_classic(current, event, busy=busy, now_ms=now_ms)


def _no_end(error: TransactionError) -> TransactionStep:
    return TransactionStep(EndReply(error=error))


def _end_classic(
    current: TransactionMetadata, event: EndTransaction, *, busy: bool, now_ms: int
) -> TransactionStep:
    if current.producer_id != event.producer_id:
        return _no_end(TransactionError.INVALID_PRODUCER_ID_MAPPING)
    if current.producer_epoch != event.producer_epoch:
        return _no_end(TransactionError.PRODUCER_FENCED)
    if busy:
        return _no_end(TransactionError.CONCURRENT_TRANSACTIONS)
    if current.state is TransactionState.ONGOING:
        return TransactionStep(EndReply(), _prepare(current, event, now_ms))
    if current.state is _complete_state(event.commit):
        return TransactionStep(EndReply())
    return _no_end(_ending_conflict(current, event))


def _end_and_bump(
    current: TransactionMetadata,
    event: EndTransaction,
    take_id: TakeProducerId,
    *,
    busy: bool,
    now_ms: int,
) -> TransactionStep:
    """Apply the table of KIP-890: what a current epoch and a retried one may do in each state.

    ================ ============== =============== ============= ==================
    state            abort, retried abort, current  commit, retr. commit, current
    ================ ============== =============== ============= ==================
    Empty            fenced         bump            fenced        INVALID_TXN_STATE
    PrepareAbort     CONCURRENT...  CONCURRENT...   CONCURRENT... CONCURRENT...
    PrepareCommit    INVALID...     CONCURRENT...   CONCURRENT... CONCURRENT...
    CompleteAbort    answer again   bump            fenced        INVALID_TXN_STATE
    CompleteCommit   INVALID...     bump            answer again  INVALID_TXN_STATE
    ================ ============== =============== ============= ==================
    """
    if _holds_next_id(current, event.producer_id, event.producer_epoch):
        return _no_end(TransactionError.CONCURRENT_TRANSACTIONS)
    rotated = _ended_with_last_epoch(current, event)
    retried = rotated or _ended_one_epoch_ago(current, event)
    if current.producer_id != event.producer_id and not rotated:
        return _no_end(TransactionError.INVALID_PRODUCER_ID_MAPPING)
    if busy:
        return _no_end(TransactionError.CONCURRENT_TRANSACTIONS)
    if not retried and current.producer_epoch != event.producer_epoch:
        return _no_end(TransactionError.PRODUCER_FENCED)
    committed = current.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
    if retried and committed and not event.commit:
        return _no_end(TransactionError.INVALID_TXN_STATE)
    if current.state.prepared:
        return _no_end(TransactionError.CONCURRENT_TRANSACTIONS)
    if retried:
        if current.state is not _complete_state(event.commit):
            return _no_end(TransactionError.PRODUCER_FENCED)  # rule 8
        return TransactionStep(
            EndReply(producer_id=current.producer_id, producer_epoch=current.producer_epoch)
        )
    if current.state is not TransactionState.ONGOING and event.commit:
        return _no_end(TransactionError.INVALID_TXN_STATE)
    return _bump(current, event, take_id, now_ms)


def _ended_one_epoch_ago(current: TransactionMetadata, event: EndTransaction) -> bool:
    """Return whether this is a retry of the EndTxn that ended the transaction one epoch ago.

    The epoch 32767 is only ever reached by fencing or on the way to a new producer id (rule 4): it
    is never handed out, not even to a producer that asks for the abort the fencing made.
    """
    ended = current.state.prepared or (
        current.state.resting and current.state is not TransactionState.EMPTY
    )
    handed_out = current.state.prepared or current.producer_epoch < MAX_EPOCH
    return (
        ended
        and handed_out
        and current.bumps_epoch
        and current.producer_id == event.producer_id
        and current.producer_epoch == event.producer_epoch + 1
    )


def _ended_with_last_epoch(current: TransactionMetadata, event: EndTransaction) -> bool:
    return (
        current.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
        and current.bumps_epoch
        and current.previous_producer_id == event.producer_id != current.producer_id
        and event.producer_epoch == MAX_EPOCH - 1
        and current.producer_epoch == 0
    )


def _bump(
    current: TransactionMetadata, event: EndTransaction, take_id: TakeProducerId, now_ms: int
) -> TransactionStep:
    ended = _prepare(current, event, now_ms)
    next_id, next_epoch = NO_PRODUCER_ID, ProducerEpoch(current.producer_epoch + 1)
    if current.epoch_exhausted:
        taken = take_id()
        if taken is None:
            return _no_end(TransactionError.COORDINATOR_LOAD_IN_PROGRESS)
        next_id = taken
    if current.state is not TransactionState.ONGOING:
        # An abort of nothing, allowed because the client cannot know whether its Produce arrived.
        ended = replace(ended, start_ms=now_ms)
    ended = replace(
        ended,
        producer_epoch=ProducerEpoch(min(next_epoch, MAX_EPOCH)),
        last_producer_epoch=current.producer_epoch,
        next_producer_id=next_id,
    )
    if next_id != NO_PRODUCER_ID:
        return TransactionStep(
            EndReply(producer_id=next_id, producer_epoch=ProducerEpoch(0)), ended
        )
    return TransactionStep(
        EndReply(producer_id=ended.producer_id, producer_epoch=next_epoch), ended
    )


def _prepare(
    current: TransactionMetadata, event: EndTransaction, now_ms: int
) -> TransactionMetadata:
    return replace(
        current,
        previous_producer_id=current.producer_id,
        next_producer_id=NO_PRODUCER_ID,
        state=TransactionState.PREPARE_COMMIT if event.commit else TransactionState.PREPARE_ABORT,
        last_update_ms=now_ms,
        client_version=event.client_version,
    )


def _ending_conflict(current: TransactionMetadata, event: EndTransaction) -> TransactionError:
    same = current.state is (
        TransactionState.PREPARE_COMMIT if event.commit else TransactionState.PREPARE_ABORT
    )
    return TransactionError.CONCURRENT_TRANSACTIONS if same else TransactionError.INVALID_TXN_STATE


def _complete_state(commit: bool) -> TransactionState:
    return TransactionState.COMPLETE_COMMIT if commit else TransactionState.COMPLETE_ABORT


def fence(current: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """Abort an open transaction under an epoch that no producer has (rule 5)."""
    assert current.state is TransactionState.ONGOING
    return replace(
        current,
        previous_producer_id=current.producer_id,
        producer_epoch=ProducerEpoch(min(current.producer_epoch + 1, MAX_EPOCH)),
        last_producer_epoch=NO_PRODUCER_EPOCH,
        state=TransactionState.PREPARE_ABORT,
        last_update_ms=now_ms,
        client_version=EPOCH_BUMP_VERSION,
    )


def complete(current: TransactionMetadata, now_ms: int) -> TransactionMetadata:
    """Complete a transaction all of whose markers are written."""
    assert current.state.prepared
    rotates = current.next_producer_id != NO_PRODUCER_ID
    return replace(
        current,
        previous_producer_id=current.producer_id,
        producer_id=current.next_producer_id if rotates else current.producer_id,
        producer_epoch=ProducerEpoch(0) if rotates else current.producer_epoch,
        next_producer_id=NO_PRODUCER_ID,
        state=_complete_state(current.state is TransactionState.PREPARE_COMMIT),
        partitions=frozenset(),
        last_update_ms=now_ms,
    )
