from headrace.log.compaction.cleaned_transactions import CleanedTransactions
from headrace.log.index.transaction_index import AbortedTransactionEntry
from headrace.records.control import ControlType

ABORTED = AbortedTransactionEntry(
    producer_id=7, first_offset=10, last_offset=19, last_stable_offset=20
)


def test_data_of_an_aborted_transaction_goes() -> None:
    transactions = CleanedTransactions([ABORTED])

    assert transactions.on_data(7, 12) is True


def test_data_of_another_producer_in_between_stays() -> None:
    transactions = CleanedTransactions([ABORTED])

    assert transactions.on_data(8, 12) is False


def test_data_before_the_transaction_began_stays() -> None:
    transactions = CleanedTransactions([ABORTED])

    assert transactions.on_data(7, 9) is False


def test_data_after_the_abort_stays() -> None:
    transactions = CleanedTransactions([ABORTED])
    transactions.on_data(7, 12)
    transactions.on_marker(7, ControlType.ABORT, 19)

    assert transactions.on_data(7, 25) is False


def test_an_abort_stays_with_its_entry_while_its_data_was_met() -> None:
    transactions = CleanedTransactions([ABORTED])
    transactions.on_data(7, 12)

    assert transactions.on_marker(7, ControlType.ABORT, 19) == (False, ABORTED)


def test_an_abort_without_data_may_go_and_its_entry_goes() -> None:
    transactions = CleanedTransactions([ABORTED])

    assert transactions.on_marker(7, ControlType.ABORT, 19) == (True, None)


def test_an_abort_that_the_index_does_not_know_stays_with_its_data() -> None:
    transactions = CleanedTransactions([])
    transactions.on_data(7, 12)

    assert transactions.on_marker(7, ControlType.ABORT, 19) == (False, None)


def test_a_commit_stays_while_its_data_was_met() -> None:
    transactions = CleanedTransactions([])
    transactions.on_data(7, 12)

    assert transactions.on_marker(7, ControlType.COMMIT, 19) == (False, None)


def test_a_commit_without_data_may_go() -> None:
    transactions = CleanedTransactions([])
    transactions.on_data(7, 12)
    transactions.on_marker(7, ControlType.COMMIT, 13)

    assert transactions.on_marker(7, ControlType.COMMIT, 19) == (True, None)


def test_an_unknown_control_record_stays() -> None:
    transactions = CleanedTransactions([])

    assert transactions.on_marker(7, ControlType.LEADER_CHANGE, 19) == (False, None)


def test_two_aborted_transactions_of_one_producer_are_kept_apart() -> None:
    second = AbortedTransactionEntry(7, 30, 39, 40)
    transactions = CleanedTransactions([second, ABORTED, ABORTED])
    transactions.on_data(7, 12)
    transactions.on_marker(7, ControlType.ABORT, 19)

    assert transactions.on_data(7, 25) is False
    assert transactions.on_data(7, 31) is True
    assert transactions.on_marker(7, ControlType.ABORT, 39) == (False, second)
