"""Every version of every transaction request, as a client of that age would send it."""

import os
import signal
import time
from typing import Any

import pytest

from headrace.testing.readiness import wait_until
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from testkit.process.broker_process import BrokerProcess
from testkit.process.wire_client import WireClient, versions
from testkit.sample.batch import sample_batch

NONE = ErrorCode.none
FENCED, OLD_EPOCH = ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch


class Transaction:
    """A transactional producer that sends single requests."""

    def __init__(self, client: WireClient, name: str, timeout_ms: int = 60_000) -> None:
        self.client = client
        self.name = name
        self.timeout_ms = timeout_ms
        self.id, self.epoch = -1, -1
        self.sequences: dict[int, int] = {}

    def init(self, version: int = 4, **more: Any) -> Any:
        body = {"transactional_id": self.name, "transaction_timeout": self.timeout_ms, **more}
        answer = self.client.ask(ApiKey.INIT_PRODUCER_ID, version, body)
        self.id, self.epoch = answer.producer_id, answer.producer_epoch
        return answer

    @property
    def producer(self) -> dict[str, Any]:
        return {"producer_id": self.id, "producer_epoch": self.epoch}

    def add(self, version: int, topic: str, *partitions: int, **more: Any) -> ErrorCode:
        """AddPartitionsToTxn; the error of the first partition."""
        topics = [{"name": topic, "partitions": partitions or (0,)}]
        if version < 4:
            old = {
                "v3_and_below_transactional_id": self.name,
                "v3_and_below_producer_id": self.id,
                "v3_and_below_producer_epoch": self.epoch,
                "v3_and_below_topics": topics,
            }
            answer = self.client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, old)
            return (
                answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            )
        one = {"transactional_id": self.name, **self.producer, "topics": topics, **more}
        body = {"transactions": [one]}
        answer = self.client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, version, body)
        (found,) = answer.results_by_transaction
        assert (answer.error_code, found.transactional_id) == (NONE, self.name)
        return found.topic_results[0].results_by_partition[0].partition_error_code

    def batch(self, *, transactional: bool = True, partition: int = 0, **more: Any) -> bytes:
        sequence = self.sequences.setdefault(partition, 0)
        self.sequences[partition] += 1
        fields = {"timestamp_ms": _now_ms(), **self.producer, "sequence": sequence}
        return sample_batch(b"v", transactional=transactional, **fields | more)

    def produce(self, version: int, topic: str, records: bytes | None = None) -> ErrorCode:
        return produce(
            self.client, version, topic, records or self.batch(), transactional_id=self.name
        )[0]

    def end(self, version: int = 4, *, commit: bool = True, **more: Any) -> Any:
        body = {"transactional_id": self.name, **self.producer, "committed": commit, **more}
        answer = self.client.ask(ApiKey.END_TXN, version, body)
        if version >= 5 and answer.error_code == NONE:
            self.epoch, self.sequences = answer.producer_epoch, {}
        return answer

    def state(self) -> str:
        body = {"transactional_ids": [self.name]}
        return str(
            self.client.ask(ApiKey.DESCRIBE_TRANSACTIONS, 0, body)
            .transaction_states[0]
            .transaction_state
        )


def produce(
    client: WireClient, version: int, topic: str, *records: bytes, transactional_id: str | None
) -> list[ErrorCode]:
    """Produce to partition 0, 1, ...; the error of each."""
    body = {
        "transactional_id": transactional_id,
        "acks": -1,
        "timeout": 1000,
        "topic_data": [
            {
                "name": topic,
                "partition_data": [
                    {"index": index, "records": data} for index, data in enumerate(records)
                ],
            }
        ],
    }
    answer = client.ask(ApiKey.PRODUCE, version, body)
    return [ErrorCode(each.error_code) for each in answer.topics[0].partitions]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def transaction(client: WireClient, topic: str) -> Transaction:
    return Transaction(client, f"id-of-{topic}")


def stable_end(client: WireClient, topic: str, partition: int = 0) -> int:
    """Where readers of committed records have to stop."""
    one = {"partition_index": partition, "timestamp": -1, "current_leader_epoch": -1}
    body = {
        "replica_id": -1,
        "isolation_level": 1,
        "topics": [{"name": topic, "partitions": [one]}],
    }
    answer = client.ask(ApiKey.LIST_OFFSETS, 5, body)
    return int(answer.topics[0].partitions[0].offset)


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
def test_every_init_raises_the_epoch(transaction: Transaction, version: int) -> None:
    first, second = transaction.init(version), transaction.init(version)

    assert (first.error_code, first.producer_epoch) == (NONE, 0)
    assert (second.producer_id, second.producer_epoch) == (first.producer_id, 1)


@pytest.mark.parametrize(("version", "error"), [(3, OLD_EPOCH), (4, FENCED), (5, FENCED)])
def test_a_fenced_producer_cannot_resume(
    transaction: Transaction, version: int, error: ErrorCode
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
    transaction: Transaction, change: dict[str, Any], error: ErrorCode
) -> None:
    assert transaction.init(4, **change).error_code == error


# -- AddPartitionsToTxn


@versions(ApiKey.ADD_PARTITIONS_TO_TXN)
def test_partitions_are_added(transaction: Transaction, created: str, version: int) -> None:
    transaction.init()

    assert transaction.add(version, created, 0, 1) == NONE
    assert transaction.state() == "Ongoing"


@versions(ApiKey.ADD_PARTITIONS_TO_TXN)
def test_an_unknown_partition_keeps_the_others_out(
    transaction: Transaction, created: str, version: int
) -> None:
    transaction.init()

    assert transaction.add(version, created, 0, 7) == ErrorCode.operation_not_attempted
    assert transaction.add(version, created, 7) == ErrorCode.unknown_topic_or_partition
    assert transaction.state() == "Empty"


@versions(ApiKey.ADD_PARTITIONS_TO_TXN)
def test_a_zombie_adds_nothing(transaction: Transaction, created: str, version: int) -> None:
    transaction.init()
    transaction.init()
    transaction.epoch -= 1

    assert transaction.add(version, created) == (OLD_EPOCH if version < 2 else FENCED)


@pytest.mark.parametrize(
    ("version", "error"),
    [(4, ErrorCode.invalid_txn_state), (5, ErrorCode.transaction_abortable)],
)
def test_verify_only_adds_nothing(
    transaction: Transaction, created: str, version: int, error: ErrorCode
) -> None:
    transaction.init()
    transaction.add(3, created, 0)

    assert transaction.add(version, created, 0, verify_only=True) == NONE
    assert transaction.add(version, created, 1, verify_only=True) == error


# -- Produce


def test_before_version_12_a_partition_must_be_added_first(
    transaction: Transaction, created: str
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
    transaction: Transaction, created: str
) -> None:
    transaction.init()

    assert transaction.produce(12, created) == NONE
    assert transaction.state() == "Ongoing"
    assert transaction.end(5).error_code == NONE
    assert stable_end(transaction.client, created) == 2


def test_since_version_12_a_new_producer_begins_with_sequence_0(
    transaction: Transaction, created: str
) -> None:
    transaction.init()

    assert transaction.produce(12, created, transaction.batch(sequence=3)) == (
        ErrorCode.out_of_order_sequence_number
    )


@pytest.mark.parametrize("version", [3, 12])
def test_a_zombie_produces_nothing(transaction: Transaction, created: str, version: int) -> None:
    transaction.init()
    transaction.init()
    transaction.epoch -= 1

    assert transaction.produce(version, created) == OLD_EPOCH


@pytest.mark.parametrize("version", [3, 12])
def test_an_unknown_producer_produces_nothing(
    transaction: Transaction, created: str, version: int
) -> None:
    transaction.init()
    transaction.id += 1

    assert transaction.produce(version, created) == ErrorCode.invalid_producer_id_mapping


def test_a_transactional_batch_needs_a_transactional_id(
    transaction: Transaction, created: str
) -> None:
    transaction.init()
    transaction.add(3, created)
    answer = produce(transaction.client, 9, created, transaction.batch(), transactional_id=None)

    assert answer == [ErrorCode.transactional_id_authorization_failed]
    assert stable_end(transaction.client, created) == 0


def test_a_plain_batch_beside_a_transactional_id_is_a_plain_batch(
    transaction: Transaction, created: str
) -> None:
    transaction.init()
    plain = sample_batch(b"v", timestamp_ms=_now_ms())

    assert transaction.produce(9, created, plain) == NONE
    assert transaction.state() == "Empty"
    assert stable_end(transaction.client, created) == 1


def test_a_plain_batch_of_a_producer_with_an_open_transaction_is_refused(
    transaction: Transaction, created: str
) -> None:
    transaction.init()
    transaction.produce(12, created)
    plain = transaction.batch(transactional=False)

    assert transaction.produce(12, created, plain) == ErrorCode.invalid_txn_state


def test_two_producers_in_one_request_are_refused(transaction: Transaction, created: str) -> None:
    transaction.init()
    mine = transaction.batch()
    other = transaction.batch(producer_id=transaction.id + 1, sequence=0)
    answer = produce(
        transaction.client, 12, created, mine, other, transactional_id=transaction.name
    )

    assert answer == [ErrorCode.invalid_producer_id_mapping] * 2


def test_two_batches_for_a_partition_are_refused(transaction: Transaction, created: str) -> None:
    plain = sample_batch(b"v", timestamp_ms=_now_ms())
    hidden = sample_batch(
        b"v",
        timestamp_ms=_now_ms(),
        producer_id=1,
        producer_epoch=0,
        sequence=0,
        transactional=True,
    )
    answer = produce(transaction.client, 9, created, plain + hidden, transactional_id=None)

    assert answer == [ErrorCode.invalid_record]


# -- EndTxn


@versions(ApiKey.END_TXN)
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_ends_and_the_next_begins(
    transaction: Transaction, created: str, version: int, commit: bool
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
    transaction: Transaction, created: str, version: int
) -> None:
    transaction.init()
    sent = transaction.producer
    transaction.add(3, created)
    first = transaction.end(version)
    second = transaction.end(version, **sent)

    assert (first.error_code, second.error_code) == (NONE, NONE)
    assert first == second


@versions(ApiKey.END_TXN)
def test_a_zombie_ends_nothing(transaction: Transaction, created: str, version: int) -> None:
    transaction.init()
    transaction.init()
    transaction.add(3, created)
    zombie = {"producer_epoch": transaction.epoch - 1}

    answer = transaction.end(version, **zombie)

    assert answer.error_code == (OLD_EPOCH if version < 2 else FENCED)
    assert transaction.state() == "Ongoing"


@versions(ApiKey.END_TXN)
def test_ending_what_was_never_begun_is_refused(transaction: Transaction, version: int) -> None:
    transaction.init()

    assert transaction.end(version).error_code == ErrorCode.invalid_txn_state
    transaction.name += "-unknown"
    assert transaction.end(version).error_code == ErrorCode.invalid_producer_id_mapping


# -- offsets


def commit_offset(
    transaction: Transaction, version: int, group: str, topic: str, offset: int
) -> ErrorCode:
    one = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "m"}
    body = {
        "transactional_id": transaction.name,
        "group_id": group,
        **transaction.producer,
        "topics": [{"name": topic, "partitions": [one]}],
    }
    answer = transaction.client.ask(ApiKey.TXN_OFFSET_COMMIT, version, body)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def add_offsets(transaction: Transaction, version: int, group: str) -> ErrorCode:
    body = {"transactional_id": transaction.name, **transaction.producer, "group_id": group}
    return ErrorCode(transaction.client.ask(ApiKey.ADD_OFFSETS_TO_TXN, version, body).error_code)


def committed(client: WireClient, group: str, topic: str) -> int:
    body = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}
    answer = client.ask(ApiKey.OFFSET_FETCH, 5, body)
    return int(answer.topics[0].partitions[0].committed_offset)


@versions(ApiKey.TXN_OFFSET_COMMIT)
@pytest.mark.parametrize("commit", [True, False])
def test_offsets_count_when_the_transaction_commits(
    transaction: Transaction, created: str, group: str, version: int, commit: bool
) -> None:
    transaction.init()
    if version < 5:
        assert add_offsets(transaction, 3, group) == NONE

    assert commit_offset(transaction, version, group, created, 42) == NONE
    assert committed(transaction.client, group, created) == -1
    transaction.end(5 if version >= 5 else 4, commit=commit)
    assert committed(transaction.client, group, created) == (42 if commit else -1)


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_are_stable_as_soon_as_the_transaction_has_ended(
    transaction: Transaction, created: str, group: str, commit: bool
) -> None:
    """KIP-447: a reader that asks for stable offsets waits for the transaction, and no longer."""

    def stable() -> tuple[ErrorCode, int]:
        topics = [{"name": created, "partition_indexes": [0]}]
        body = {"groups": [{"group_id": group, "topics": topics}], "require_stable": True}
        answer = transaction.client.ask(ApiKey.OFFSET_FETCH, 9, body)
        found = answer.groups[0].topics[0].partitions[0]
        return ErrorCode(found.error_code), found.committed_offset

    transaction.init()
    commit_offset(transaction, 5, group, created, 42)
    assert stable() == (ErrorCode.unstable_offset_commit, -1)
    transaction.end(5, commit=commit)
    assert stable() == (NONE, 42 if commit else -1)


@versions(ApiKey.ADD_OFFSETS_TO_TXN)
def test_a_group_is_added(transaction: Transaction, group: str, version: int) -> None:
    transaction.init()

    assert add_offsets(transaction, version, group) == NONE
    assert transaction.state() == "Ongoing"
    transaction.epoch += 1
    assert add_offsets(transaction, version, group) == (OLD_EPOCH if version < 2 else FENCED)


@pytest.mark.parametrize(
    ("version", "error"),
    [(3, ErrorCode.invalid_txn_state), (4, ErrorCode.transaction_abortable)],
)
def test_before_version_5_a_group_must_be_added_first(
    transaction: Transaction, created: str, group: str, version: int, error: ErrorCode
) -> None:
    transaction.init()

    assert commit_offset(transaction, version, group, created, 1) == error


@versions(ApiKey.TXN_OFFSET_COMMIT)
def test_offsets_of_an_unknown_topic_or_a_zombie_are_refused(
    transaction: Transaction, topic: str, group: str, version: int
) -> None:
    transaction.init()
    add_offsets(transaction, 3, group)

    assert commit_offset(transaction, version, group, topic, 1) == (
        ErrorCode.unknown_topic_or_partition
    )
    transaction.epoch += 1
    assert commit_offset(transaction, version, group, topic, 1) == OLD_EPOCH


# -- looking, and helping by hand


@versions(ApiKey.LIST_TRANSACTIONS)
def test_transactions_are_listed(transaction: Transaction, created: str, version: int) -> None:
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


def test_transactions_are_listed_by_age_and_pattern(transaction: Transaction, created: str) -> None:
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


def test_a_transaction_is_described(transaction: Transaction, created: str) -> None:
    transaction.init()
    transaction.add(3, created, 0, 1)
    body = {"transactional_ids": [transaction.name, "unknown"]}
    found, unknown = transaction.client.ask(
        ApiKey.DESCRIBE_TRANSACTIONS, 0, body
    ).transaction_states

    assert (found.transaction_state, found.producer_id) == ("Ongoing", transaction.id)
    assert [(each.topic, each.partitions) for each in found.topics] == [(created, (0, 1))]
    assert abs(found.transaction_start_time.timestamp() * 1000 - _now_ms()) < 60_000
    assert unknown.error_code == ErrorCode.transactional_id_not_found


@versions(ApiKey.WRITE_TXN_MARKERS)
def test_a_marker_ends_a_transaction_by_hand(
    transaction: Transaction, created: str, version: int
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
    transaction: Transaction, created: str
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


@pytest.mark.parametrize("api", [ApiKey.WRITE_TXN_MARKERS, ApiKey.END_TXN])
def test_what_a_sender_that_has_gone_wanted_does_not_end_the_next_transaction(
    broker: BrokerProcess, transaction: Transaction, created: str, api: ApiKey
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
            late.send(api, 1, body)
            late.close()
        finally:
            os.kill(broker.pid, signal.SIGCONT)

    transaction.client.ask(ApiKey.API_VERSIONS, 0, {})  # served after what came before
    assert transaction.state() == "Ongoing"
    assert stable_end(transaction.client, created) == 0
    assert transaction.end().error_code == NONE


def test_a_transaction_past_its_timeout_is_aborted_and_its_producer_fenced(
    client: WireClient, topic: str, created: str
) -> None:
    transaction = Transaction(client, f"late-{topic}", timeout_ms=50)
    transaction.init()
    transaction.produce(12, created)

    wait_until(lambda: transaction.state() == "CompleteAbort", what="the abort")

    assert stable_end(client, created) == 2
    assert transaction.produce(12, created) == OLD_EPOCH
    assert transaction.end(4).error_code == FENCED
