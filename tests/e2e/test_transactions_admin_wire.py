"""Looking at transactions, and ending them by hand, in every version of the requests."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.readiness import wait_until
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from testkit.process.broker_process import BrokerProcess
from testkit.process.wire_client import WireClient, versions
from testkit.sample.wire_transaction import WireTransaction, now_ms, stable_end

NONE = ErrorCode.none


@versions(ApiKey.LIST_TRANSACTIONS)
def test_transactions_are_listed(transaction: WireTransaction, created: str, version: int) -> None:
    transaction.init()
    transaction.add(3, created)
    body = {
        "state_filters": ["Ongoing", "Nonsense"],
        "producer_id_filters": [transaction.id],
        "duration_filter": -1,
        "transactional_id_pattern": None,
    }
    answer = transaction.client.ask(ApiKey.LIST_TRANSACTIONS, version, body)

    assert answer.unknown_state_filters == ("Nonsense",)
    (found,) = answer.transaction_states
    assert (found.transactional_id, found.transaction_state) == (transaction.name, "Ongoing")


def test_transactions_are_listed_by_age_and_pattern(
    transaction: WireTransaction, created: str
) -> None:
    transaction.init()
    transaction.add(3, created)

    def names(**more: Any) -> list[str]:
        body = {"state_filters": [], "producer_id_filters": [], "duration_filter": -1, **more}
        answer = transaction.client.ask(ApiKey.LIST_TRANSACTIONS, 2, body)
        assert answer.error_code == NONE
        return [each.transactional_id for each in answer.transaction_states]

    assert names(transactional_id_pattern=f"id.*{created}") == [transaction.name]
    assert transaction.name not in names(transactional_id_pattern=created)
    assert transaction.name not in names(duration_filter=3_600_000)
    bad = {"transactional_id_pattern": "(", "duration_filter": -1}
    answer = transaction.client.ask(
        ApiKey.LIST_TRANSACTIONS, 2, {"state_filters": [], "producer_id_filters": [], **bad}
    )
    assert answer.error_code == ErrorCode.invalid_regular_expression


def test_a_transaction_is_described(transaction: WireTransaction, created: str) -> None:
    transaction.init()
    transaction.add(3, created, 0, 1)
    body = {"transactional_ids": [transaction.name, "unknown"]}
    found, unknown = transaction.client.ask(
        ApiKey.DESCRIBE_TRANSACTIONS, 0, body
    ).transaction_states

    assert (found.transaction_state, found.producer_id) == ("Ongoing", transaction.id)
    assert [(each.topic, each.partitions) for each in found.topics] == [(created, (0, 1))]
    assert abs(found.transaction_start_time.timestamp() * 1000 - now_ms()) < 60_000
    assert unknown.error_code == ErrorCode.transactional_id_not_found


@versions(ApiKey.WRITE_TXN_MARKERS)
def test_a_marker_ends_a_transaction_by_hand(
    transaction: WireTransaction, created: str, version: int
) -> None:
    transaction.init()
    transaction.produce(12, created)
    assert stable_end(transaction.client, created) == 0

    def mark(coordinator_epoch: int, epoch: int, topic: str = created) -> ErrorCode:
        marker = {
            "producer_id": transaction.id,
            "producer_epoch": epoch,
            "transaction_result": False,
            "topics": [{"name": topic, "partition_indexes": [0]}],
            "coordinator_epoch": coordinator_epoch,
            "transaction_version": 0,
        }
        answer = transaction.client.ask(ApiKey.WRITE_TXN_MARKERS, version, {"markers": [marker]})
        return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)

    assert mark(5, 0) == NONE
    assert stable_end(transaction.client, created) == 2
    assert mark(4, 0) == ErrorCode.transaction_coordinator_fenced
    assert mark(5, -1) == ErrorCode.invalid_request
    assert mark(5, 0, created + "-unknown") == ErrorCode.unknown_topic_or_partition


def test_a_marker_of_the_transaction_before_does_not_end_the_next(
    transaction: WireTransaction, created: str
) -> None:
    """KIP-890: since version 2 the epoch grows with every end, so a late marker has the epoch that
    the next transaction writes with."""
    transaction.init()
    transaction.produce(12, created)

    def mark(epoch: int) -> ErrorCode:
        marker = {
            "producer_id": transaction.id,
            "producer_epoch": epoch,
            "transaction_result": False,
            "topics": [{"name": created, "partition_indexes": [0]}],
            "coordinator_epoch": 5,
            "transaction_version": 2,
        }
        answer = transaction.client.ask(ApiKey.WRITE_TXN_MARKERS, 2, {"markers": [marker]})
        return ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)

    assert mark(0) == ErrorCode.invalid_producer_epoch
    assert stable_end(transaction.client, created) == 0
    assert mark(1) == NONE
    assert stable_end(transaction.client, created) == 2


def is_stopped(pid: int) -> bool:
    """Return whether all threads of a process have stopped; the signal returns before they have."""
    states = (
        (task / "stat").read_text().rpartition(")")[2].split()[0]
        for task in Path(f"/proc/{pid}/task").iterdir()
    )
    return all(state == "T" for state in states)


@pytest.mark.parametrize("api", [ApiKey.WRITE_TXN_MARKERS, ApiKey.END_TXN])
def test_what_a_sender_that_has_gone_wanted_does_not_end_the_next_transaction(
    broker: BrokerProcess, transaction: WireTransaction, created: str, api: ApiKey
) -> None:
    """A broker that slept finds it in a socket, after its sender has tried another way."""
    transaction.init()
    transaction.produce(12, created)
    marker = {
        "producer_id": transaction.id,
        "producer_epoch": transaction.epoch,
        "transaction_result": False,
        "topics": [{"name": created, "partition_indexes": [0]}],
        "coordinator_epoch": 5,
        "transaction_version": 0,
    }
    end = {"transactional_id": transaction.name, **transaction.producer, "committed": True}
    body = {"markers": [marker]} if api is ApiKey.WRITE_TXN_MARKERS else end
    with WireClient(broker.address) as late:
        late.ask(ApiKey.API_VERSIONS, 0, {})  # it is accepted
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            wait_until(lambda: is_stopped(broker.pid), what="a broker that sleeps")
            late.send(api, 1, body)
            late.close()
        finally:
            os.kill(broker.pid, signal.SIGCONT)

    transaction.client.ask(ApiKey.API_VERSIONS, 0, {})  # served after what came before
    assert transaction.state() == "Ongoing"
    assert stable_end(transaction.client, created) == 0
    assert transaction.end().error_code == NONE
