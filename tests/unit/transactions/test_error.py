"""Old clients see the codes they know."""

import pytest

from headrace.transactions.error import TransactionError, for_version


@pytest.mark.parametrize(
    ("api", "last_old_version"),
    [("InitProducerId", 3), ("AddPartitionsToTxn", 1), ("AddOffsetsToTxn", 1), ("EndTxn", 1)],
)
def test_fencing_has_an_older_name(api, last_old_version):
    fenced = TransactionError.PRODUCER_FENCED

    assert for_version(fenced, api, last_old_version) is TransactionError.INVALID_PRODUCER_EPOCH
    assert for_version(fenced, api, last_old_version + 1) is fenced


def test_abortable_has_an_older_name():
    abortable = TransactionError.TRANSACTION_ABORTABLE

    assert for_version(abortable, "Produce", 10) is TransactionError.INVALID_TXN_STATE
    assert for_version(abortable, "Produce", 11) is abortable


def test_every_other_error_is_the_same_in_all_versions():
    error = TransactionError.CONCURRENT_TRANSACTIONS

    assert for_version(error, "EndTxn", 0) is error


def test_apis_that_always_knew_an_error_send_it_in_every_version():
    for error in (TransactionError.PRODUCER_FENCED, TransactionError.TRANSACTION_ABORTABLE):
        assert for_version(error, "WriteTxnMarkers", 0) is error
