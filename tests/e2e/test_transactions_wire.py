"""Every version of the requests that begin, fill and end a transaction, as a client of that age
would send it."""

from typing import Any

import pytest

from headrace.testing.readiness import wait_until
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from testkit.process.wire_client import WireClient, versions
from testkit.sample.wire_transaction import WireTransaction, stable_end

NONE = ErrorCode.none
FENCED, OLD_EPOCH = ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch


# -- InitProducerId


@versions(ApiKey.INIT_PRODUCER_ID)
def test_a_producer_without_a_transactional_id_gets_an_id_of_its_own(
    client: WireClient, version: int
) -> None:
    body = {"transactional_id": None, "transaction_timeout": 0}
    first = client.ask(ApiKey.INIT_PRODUCER_ID, version, body)
    second = client.ask(ApiKey.INIT_PRODUCER_ID, version, body)

    assert (first.error_code, first.producer_epoch) == (NONE, 0)
    assert second.producer_id > first.producer_id


@versions(ApiKey.INIT_PRODUCER_ID)
def test_every_init_raises_the_epoch(transaction: WireTransaction, version: int) -> None:
    first, second = transaction.init(version), transaction.init(version)

    assert (first.error_code, first.producer_epoch) == (NONE, 0)
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, 1)


@pytest.mark.parametrize(("version", "error"), [(3, OLD_EPOCH), (4, FENCED), (5, FENCED)])
def test_a_fenced_producer_cannot_resume(
    transaction: WireTransaction, version: int, error: ErrorCode
) -> None:
    transaction.init()
    zombie = transaction.producer
    transaction.init()
    transaction.init()

    assert transaction.init(version, **zombie).error_code == error


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"transactional_id": ""}, ErrorCode.invalid_request),
        ({"transaction_timeout": 0}, ErrorCode.invalid_transaction_timeout),
        ({"transaction_timeout": 2**31 - 1}, ErrorCode.invalid_transaction_timeout),
        ({"producer_id": 5}, ErrorCode.invalid_request),
        ({"producer_epoch": 5}, ErrorCode.invalid_request),
        ({"transactional_id": None, "producer_id": 5}, ErrorCode.invalid_request),
    ],
)
def test_a_senseless_init_is_refused(
    transaction: WireTransaction, change: dict[str, Any], error: ErrorCode
) -> None:
    assert transaction.init(4, **change).error_code == error


# -- AddPartitionsToTxn


@versions(ApiKey.ADD_PARTITIONS_TO_TXN)
def test_partitions_are_added(transaction: WireTransaction, created: str, version: int) -> None:
    transaction.init()

    assert transaction.add(version, created, 0, 1) == NONE
    assert transaction.state() == "Ongoing"


@versions(ApiKey.ADD_PARTITIONS_TO_TXN)
def test_an_unknown_partition_keeps_the_others_out(
    transaction: WireTransaction, created: str, version: int
) -> None:
    transaction.init()

    assert transaction.add(version, created, 0, 7) == ErrorCode.operation_not_attempted
    assert transaction.add(version, created, 7) == ErrorCode.unknown_topic_or_partition
    assert transaction.state() == "Empty"


@versions(ApiKey.ADD_PARTITIONS_TO_TXN)
def test_a_zombie_adds_nothing(transaction: WireTransaction, created: str, version: int) -> None:
    transaction.init()
    transaction.init()
    transaction.epoch -= 1

    assert transaction.add(version, created) == (OLD_EPOCH if version < 2 else FENCED)


@pytest.mark.parametrize(
    ("version", "error"),
    [(4, ErrorCode.invalid_txn_state), (5, ErrorCode.transaction_abortable)],
)
def test_verify_only_adds_nothing(
    transaction: WireTransaction, created: str, version: int, error: ErrorCode
) -> None:
    transaction.init()
    transaction.add(3, created, 0)

    assert transaction.add(version, created, 0, verify_only=True) == NONE
    assert transaction.add(version, created, 1, verify_only=True) == error


# -- EndTxn


@versions(ApiKey.END_TXN)
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_ends_and_the_next_begins(
    transaction: WireTransaction, created: str, version: int, commit: bool
) -> None:
    transaction.init()
    for number in (1, 2):
        if version < 5:
            transaction.add(3, created)
            assert transaction.produce(3, created) == NONE
        else:
            assert transaction.produce(12, created) == NONE
        assert transaction.end(version, commit=commit).error_code == NONE
        assert stable_end(transaction.client, created) == 2 * number

    assert transaction.state() == ("CompleteCommit" if commit else "CompleteAbort")
    assert transaction.epoch == (2 if version >= 5 else 0)


@versions(ApiKey.END_TXN)
def test_a_retried_end_gets_the_same_answer(
    transaction: WireTransaction, created: str, version: int
) -> None:
    transaction.init()
    sent = transaction.producer
    transaction.add(3, created)
    first = transaction.end(version)
    second = transaction.end(version, **sent)

    assert (first.error_code, second.error_code) == (NONE, NONE)
    assert first == second


@versions(ApiKey.END_TXN)
def test_a_zombie_ends_nothing(transaction: WireTransaction, created: str, version: int) -> None:
    transaction.init()
    transaction.init()
    transaction.add(3, created)
    zombie = {"producer_epoch": transaction.epoch - 1}

    answer = transaction.end(version, **zombie)

    assert answer.error_code == (OLD_EPOCH if version < 2 else FENCED)
    assert transaction.state() == "Ongoing"


@versions(ApiKey.END_TXN)
def test_ending_what_was_never_begun_is_refused(transaction: WireTransaction, version: int) -> None:
    transaction.init()

    assert transaction.end(version).error_code == ErrorCode.invalid_txn_state
    transaction.name += "-unknown"
    assert transaction.end(version).error_code == ErrorCode.invalid_producer_id_mapping


def test_a_transaction_past_its_timeout_is_aborted_and_its_producer_fenced(
    client: WireClient, topic: str, created: str
) -> None:
    transaction = WireTransaction(client, f"late-{topic}", timeout_ms=2000)
    transaction.init()
    assert transaction.produce(12, created) == NONE

    wait_until(lambda: transaction.state() == "CompleteAbort", what="the abort")

    assert stable_end(client, created) == 2
    assert transaction.produce(12, created) == OLD_EPOCH
    assert transaction.end(4).error_code == FENCED
    assert transaction.end(5).error_code == FENCED
    assert transaction.end(5, commit=False).error_code == NONE, "and may go on"
