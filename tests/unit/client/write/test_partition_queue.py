"""A lane sends in order, sends again in order, and gives every record one sequence."""

from collections.abc import Sequence

import pyarrow as pa
import pytest

from headrace.client.error import BrokerError, ConnectionLost
from headrace.client.settings import ClientSettings
from headrace.client.write.partition_queue import PartitionQueue, RetryDecision
from headrace.client.write.pending_batch import PendingBatch, SharedBuffer, pending_batches
from headrace.client.write.producer_id import LAST_EPOCH, NO_IDENTITY, ProducerIdentity
from headrace.model.ids import TopicPartition
from headrace.records.batch import Batch
from headrace.records.encode import encode
from headrace.wire.error_code import ErrorCode

SETTINGS = ClientSettings.of({"default.api.timeout.ms": "60000", "retry.backoff.ms": "100"})
ALICE = ProducerIdentity(7, 0)
MOVED = BrokerError(ErrorCode.not_leader_or_follower)
OUT_OF_ORDER = BrokerError(ErrorCode.out_of_order_sequence_number)


def batches(*sizes: int) -> list[PendingBatch]:
    rows = [pa.record_batch({"value": ["v"] * size}) for size in sizes]
    encoded = [encode(each, timestamp_ms=0).batches[0] for each in rows]
    return pending_batches(encoded, SharedBuffer(1, len(sizes)))


def lane_of(
    *sizes: int, identity: ProducerIdentity = ALICE, transactional: bool = False
) -> PartitionQueue:
    lane = PartitionQueue(
        TopicPartition("clicks", 0), SETTINGS, identity, transactional=transactional
    )
    for batch in batches(*sizes):
        lane.push(batch)
    return lane


def heads(sent: Sequence[PendingBatch]) -> list[tuple[int, int]]:
    """Epoch and sequence of each, as a broker reads them."""
    for batch in sent:
        Batch(batch.data).validate(from_client=True)
    return [(Batch(each.data).producer_epoch, Batch(each.data).base_sequence) for each in sent]


def test_sequences_count_records() -> None:
    lane = lane_of(3, 1, 2)

    sent = [lane.take() for _ in range(3)]

    assert heads(sent) == [(0, 0), (0, 3), (0, 4)]
    assert Batch(sent[0].data).producer_id == 7


def test_a_batch_without_identity_has_no_sequence() -> None:
    lane = lane_of(3, identity=NO_IDENTITY)

    assert heads([lane.take()]) == [(-1, -1)]


def test_the_first_batch_of_an_identity_goes_alone() -> None:
    lane = lane_of(1, 1, 1)

    first = lane.take()
    assert not lane.is_ready(0.0)
    lane.refuse(first, MOVED, 0.0)
    assert lane.take() is first
    assert not lane.is_ready(1.0)
    lane.acknowledge(first, 0)
    lane.take()

    assert lane.is_ready(1.0)


def test_without_an_identity_nothing_waits_for_the_first() -> None:
    lane = lane_of(1, 1, identity=NO_IDENTITY)

    lane.take()

    assert lane.is_ready(0.0)


def test_what_failed_goes_again_in_order_once_all_is_answered() -> None:
    lane = lane_of(1, 1, 1, 1)
    first, second, third = (lane.take() for _ in range(3))

    assert lane.refuse(first, MOVED, 0.0) is RetryDecision.AGAIN
    assert not lane.is_ready(1.0)
    assert lane.refuse(second, OUT_OF_ORDER, 0.0) is RetryDecision.AGAIN
    assert lane.refuse(third, OUT_OF_ORDER, 0.0) is RetryDecision.AGAIN

    assert lane.is_ready(1.0)
    sent = [lane.take() for _ in range(4)]
    assert sent[:3] == [first, second, third]
    assert heads(sent) == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert not lane.forgotten


def test_nothing_goes_to_a_new_leader_while_the_old_one_owes_an_answer() -> None:
    lane = lane_of(1, 1)
    first = lane.take(node_id=1)

    assert lane.may_go_to(1)
    assert not lane.may_go_to(2)
    lane.refuse(first, MOVED, 0.0)

    assert lane.may_go_to(2)


def test_what_goes_again_goes_alone() -> None:
    lane = lane_of(1, 1, 1)
    lane.acknowledge(lane.take(), 0)
    second = lane.take()
    lane.refuse(second, MOVED, 0.0)

    assert lane.take() is second
    assert not lane.is_ready(1.0)
    lane.acknowledge(second, 1)

    assert lane.is_ready(1.0)


def test_a_lane_waits_before_it_tries_again_and_longer_each_time() -> None:
    lane = lane_of(1)
    lane.refuse(lane.take(), MOVED, 10.0)
    assert lane.retry_at == pytest.approx(10.1)

    lane.refuse(lane.take(), MOVED, 11.0)

    assert lane.retry_at == pytest.approx(11.2)
    assert not lane.is_ready(11.1)
    assert lane.is_ready(11.3)


def test_patience_ends_a_minute_after_the_first_failure() -> None:
    lane = lane_of(1)
    lost = ConnectionLost("gone")
    assert lane.refuse(lane.take(), lost, 0.0) is RetryDecision.AGAIN
    assert lane.refuse(lane.take(), lost, 59.0) is RetryDecision.AGAIN

    assert lane.refuse(lane.take(), lost, 61.0) is RetryDecision.FAILED


def test_a_success_brings_back_patience() -> None:
    lane = lane_of(1, 1)
    lane.refuse(lane.take(), MOVED, 0.0)
    lane.acknowledge(lane.take(), 0)

    assert lane.refuse(lane.take(), MOVED, 70.0) is RetryDecision.AGAIN


def test_a_lane_that_the_broker_forgot_starts_over_with_the_next_epoch() -> None:
    lane = lane_of(2, 2, 2)
    lane.acknowledge(lane.take(), 0)
    second, third = lane.take(), lane.take()

    forgot = BrokerError(ErrorCode.unknown_producer_id)
    assert lane.refuse(second, forgot, 0.0) is RetryDecision.AGAIN
    assert lane.refuse(third, forgot, 0.0) is RetryDecision.AGAIN
    assert lane.forgotten
    next_identity = ALICE.next
    assert next_identity is not None
    lane.start_over(next_identity)

    sent = [lane.take(), lane.take()]
    assert sent == [second, third]
    assert heads(sent) == [(1, 0), (1, 2)]


def test_a_transaction_does_not_survive_a_broker_that_forgot_it() -> None:
    lane = lane_of(1, transactional=True)

    assert lane.refuse(lane.take(), OUT_OF_ORDER, 0.0) is RetryDecision.FAILED


def test_another_writer_of_the_transactional_id_fences_this_one() -> None:
    lane = lane_of(1, transactional=True)

    old = BrokerError(ErrorCode.invalid_producer_epoch)

    assert lane.refuse(lane.take(), old, 0.0) is RetryDecision.FENCED


def test_a_batch_that_is_too_large_is_not_sent_again() -> None:
    lane = lane_of(1)

    refused = BrokerError(ErrorCode.message_too_large)

    assert lane.refuse(lane.take(), refused, 0.0) is RetryDecision.FAILED


def test_the_lane_knows_what_landed_where() -> None:
    lane = lane_of(3, 2)
    lane.acknowledge(lane.take(), 40)

    lane.acknowledge(lane.take(), 43)

    assert (lane.landed.records, lane.landed.first_offset, lane.landed.last_offset) == (5, 40, 44)
    assert lane.is_empty


def test_a_duplicate_counts_without_an_offset() -> None:
    lane = lane_of(3)

    lane.acknowledge(lane.take(), -1)

    assert lane.landed.records == 3
    assert lane.landed.last_offset == -1


def test_an_identity_ends_before_its_epochs_do() -> None:
    assert ProducerIdentity(7, LAST_EPOCH).next is None
    assert ProducerIdentity(7, LAST_EPOCH - 1).next == ProducerIdentity(7, LAST_EPOCH)


def test_room_is_free_when_the_last_batch_is_done() -> None:
    room = SharedBuffer(100, 2)

    assert [room.let_go(), room.let_go()] == [0, 100]
