"""Errors travel between processes: a Spark task's reaches the driver as it was."""

import pickle

import pytest

from headrace.client.error import (
    BrokerError,
    ClientError,
    DamagedBatch,
    PositionOutOfRange,
    ProducerFenced,
    WriteFailed,
)
from headrace.model.ids import TopicPartition
from headrace.wire.error_code import ErrorCode

REFUSED = BrokerError(ErrorCode.message_too_large, "too large")


CLICKS = TopicPartition("clicks", 1)


@pytest.mark.parametrize(
    "error",
    [
        REFUSED,
        WriteFailed(CLICKS, REFUSED),
        ProducerFenced("billing"),
        PositionOutOfRange(CLICKS, 5, 10, 20),
        DamagedBatch(CLICKS, 5, "the CRC does not match"),
    ],
)
def test_an_error_pickles(error: ClientError) -> None:
    copy = pickle.loads(pickle.dumps(error))

    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy).keys() == vars(error).keys()
