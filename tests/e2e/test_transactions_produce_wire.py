"""Which batches of a transactional producer the broker takes, in every version of Produce."""

import pytest

from headrace.wire.error_code import ErrorCode
from testkit.sample.batch import sample_batch
from testkit.sample.wire_transaction import WireTransaction, now_ms, produce, stable_end

NONE = ErrorCode.none
OLD_EPOCH = ErrorCode.invalid_producer_epoch


def test_before_version_12_a_partition_must_be_added_first(
    transaction: WireTransaction, created: str
) -> None:
    transaction.init()

    assert transaction.produce(3, created, transaction.batch(sequence=0)) == (
        ErrorCode.invalid_txn_state
    )
    assert transaction.produce(11, created, transaction.batch(sequence=0)) == (
        ErrorCode.transaction_abortable
    )
    transaction.add(3, created)
    assert transaction.produce(3, created, transaction.batch(sequence=0)) == NONE
    assert stable_end(transaction.client, created) == 0


def test_since_version_12_a_produce_adds_its_partition(
    transaction: WireTransaction, created: str
) -> None:
    transaction.init()

    assert transaction.produce(12, created) == NONE
    assert transaction.state() == "Ongoing"
    assert transaction.end(5).error_code == NONE
    assert stable_end(transaction.client, created) == 2


def test_since_version_12_a_new_producer_begins_with_sequence_0(
    transaction: WireTransaction, created: str
) -> None:
    transaction.init()

    assert transaction.produce(12, created, transaction.batch(sequence=3)) == (
        ErrorCode.out_of_order_sequence_number
    )


@pytest.mark.parametrize("version", [3, 12])
def test_a_zombie_produces_nothing(
    transaction: WireTransaction, created: str, version: int
) -> None:
    transaction.init()
    transaction.init()
    transaction.epoch -= 1

    assert transaction.produce(version, created) == OLD_EPOCH


@pytest.mark.parametrize("version", [3, 12])
def test_an_unknown_producer_produces_nothing(
    transaction: WireTransaction, created: str, version: int
) -> None:
    transaction.init()
    transaction.id += 1

    assert transaction.produce(version, created) == ErrorCode.invalid_producer_id_mapping


def test_a_transactional_batch_needs_a_transactional_id(
    transaction: WireTransaction, created: str
) -> None:
    transaction.init()
    transaction.add(3, created)
    answer = produce(transaction.client, 9, created, transaction.batch(), transactional_id=None)

    assert answer == [ErrorCode.transactional_id_authorization_failed]
    assert stable_end(transaction.client, created) == 0


def test_a_plain_batch_beside_a_transactional_id_is_a_plain_batch(
    transaction: WireTransaction, created: str
) -> None:
    transaction.init()
    plain = sample_batch(b"v", timestamp_ms=now_ms())

    assert transaction.produce(9, created, plain) == NONE
    assert transaction.state() == "Empty"
    assert stable_end(transaction.client, created) == 1


def test_a_plain_batch_of_a_producer_with_an_open_transaction_is_refused(
    transaction: WireTransaction, created: str
) -> None:
    transaction.init()
    transaction.produce(12, created)
    plain = transaction.batch(transactional=False)

    assert transaction.produce(12, created, plain) == ErrorCode.invalid_txn_state


def test_two_producers_in_one_request_are_refused(
    transaction: WireTransaction, created: str
) -> None:
    transaction.init()
    mine = transaction.batch()
    other = transaction.batch(producer_id=transaction.id + 1, sequence=0)
    answer = produce(
        transaction.client, 12, created, mine, other, transactional_id=transaction.name
    )

    assert answer == [ErrorCode.invalid_producer_id_mapping] * 2


def test_a_partition_named_twice_lets_no_other_producer_in(
    transaction: WireTransaction, created: str
) -> None:
    """Its transaction would have no coordinator to end it, and readers would wait for ever."""
    transaction.init()
    other = transaction.batch(producer_id=transaction.id + 1, sequence=0)
    answer = produce(
        transaction.client,
        12,
        created,
        other,
        transaction.batch(),
        transactional_id=transaction.name,
        partitions=[0, 0],
    )

    assert answer == [ErrorCode.invalid_producer_id_mapping] * 2
    assert transaction.produce(12, created, transaction.batch(sequence=0)) == NONE
    assert transaction.end(5).error_code == NONE
    assert stable_end(transaction.client, created) == 2


def test_two_batches_for_a_partition_are_refused(
    transaction: WireTransaction, created: str
) -> None:
    plain = sample_batch(b"v", timestamp_ms=now_ms())
    hidden = sample_batch(
        b"v",
        timestamp_ms=now_ms(),
        producer_id=1,
        producer_epoch=0,
        sequence=0,
        transactional=True,
    )
    answer = produce(transaction.client, 9, created, plain + hidden, transactional_id=None)

    assert answer == [ErrorCode.invalid_record]
