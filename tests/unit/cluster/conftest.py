"""Cluster states and the words to fill them."""

import pytest

from headrace.cluster.broker import BrokerRecord, Endpoint
from headrace.cluster.state import ClusterState, Put
from headrace.model.ids import BrokerId


def running(number: int, rack: str | None = None) -> BrokerRecord:
    endpoint = Endpoint("PLAINTEXT", "127.0.0.1", 9092 + number)
    return BrokerRecord(broker_id=BrokerId(number), endpoints=(endpoint,), rack=rack)


@pytest.fixture
def one_broker() -> ClusterState:
    state = ClusterState()
    state.apply(Put(running(1)))
    return state


@pytest.fixture
def three_brokers() -> ClusterState:
    state = ClusterState()
    for number in (1, 2, 3):
        state.apply(Put(running(number)))
    return state
