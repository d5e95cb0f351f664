"""What users of the API hear of the cluster behind it."""

import pytest

from headrace.client.error import BrokerError, ConnectionLost, Unreachable
from headrace.gateway.kinesis.error import cluster_failure
from headrace.wire.error_code import ErrorCode


@pytest.mark.parametrize(
    "error",
    [
        Unreachable("broker 3, as the cluster advertises it: 10.0.0.7:9092 refused"),
        ConnectionLost("the broker at 10.0.0.7:9092 closed the connection"),
        BrokerError(ErrorCode.not_enough_replicas, "on 10.0.0.7:9092"),
    ],
)
def test_an_error_does_not_tell_where_the_brokers_are(error: Exception) -> None:
    failure = cluster_failure("The record may not be written", error)

    assert failure.status == 500
    assert failure.message is not None and "10.0.0.7" not in failure.message


def test_an_error_names_what_the_broker_refused() -> None:
    failure = cluster_failure("The shard cannot be read", BrokerError(ErrorCode.policy_violation))

    assert failure.message == "The shard cannot be read: POLICY_VIOLATION."
