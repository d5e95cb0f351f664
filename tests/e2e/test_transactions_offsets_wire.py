"""Offsets in a transaction, in every version of their requests."""

import pytest

from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from testkit.process.wire_client import WireClient, versions
from testkit.sample.wire_transaction import WireTransaction

NONE = ErrorCode.none
FENCED, OLD_EPOCH = ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch


def commit_offset(
    transaction: WireTransaction, version: int, group: str, topic: str, offset: int
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


def add_offsets(transaction: WireTransaction, version: int, group: str) -> ErrorCode:
    body = {"transactional_id": transaction.name, **transaction.producer, "group_id": group}
    return ErrorCode(transaction.client.ask(ApiKey.ADD_OFFSETS_TO_TXN, version, body).error_code)


def committed(client: WireClient, group: str, topic: str) -> int:
    body = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [0]}]}
    answer = client.ask(ApiKey.OFFSET_FETCH, 5, body)
    return int(answer.topics[0].partitions[0].committed_offset)


@versions(ApiKey.TXN_OFFSET_COMMIT)
@pytest.mark.parametrize("commit", [True, False])
def test_offsets_count_when_the_transaction_commits(
    transaction: WireTransaction, created: str, group: str, version: int, commit: bool
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
    transaction: WireTransaction, created: str, group: str, commit: bool
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
def test_a_group_is_added(transaction: WireTransaction, group: str, version: int) -> None:
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
    transaction: WireTransaction, created: str, group: str, version: int, error: ErrorCode
) -> None:
    transaction.init()

    assert commit_offset(transaction, version, group, created, 1) == error


@versions(ApiKey.TXN_OFFSET_COMMIT)
def test_offsets_of_an_unknown_topic_or_a_zombie_are_refused(
    transaction: WireTransaction, topic: str, group: str, version: int
) -> None:
    transaction.init()
    add_offsets(transaction, 3, group)

    assert commit_offset(transaction, version, group, topic, 1) == (
        ErrorCode.unknown_topic_or_partition
    )
    transaction.epoch += 1
    assert commit_offset(transaction, version, group, topic, 1) == OLD_EPOCH
