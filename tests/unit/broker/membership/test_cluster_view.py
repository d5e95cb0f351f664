"""What clients see of the cluster's brokers, by the listener that they came through."""

from types import SimpleNamespace
from typing import Any

from headrace.broker.config.listener import Listener
from headrace.broker.config.settings import BrokerSettings
from headrace.broker.membership.cluster_view import ClusterView
from headrace.cluster.broker import BrokerRecord, Endpoint
from headrace.model.ids import BrokerId
from headrace.wire.leader import LeaderHint, NodeEndpoint

HERE, OTHER, INSIDE_ONLY = BrokerId(1), BrokerId(2), BrokerId(3)


def record(broker_id: BrokerId, *names: str) -> BrokerRecord:
    endpoints = tuple(Endpoint(name, f"{name.lower()}-{broker_id}", 9092) for name in names)
    return BrokerRecord(broker_id=broker_id, endpoints=endpoints, rack=f"rack-{broker_id}")


def view(*members: BrokerRecord) -> ClusterView:
    settings = BrokerSettings({"node.id": str(HERE), "broker.rack": "rack-1"})
    advertised = {name: Listener(name, f"{name.lower()}-1", 9092) for name in ("IN", "OUT")}
    return ClusterView(settings, {each.broker_id: each for each in members}, advertised)


def call_through(listener: str) -> Any:
    return SimpleNamespace(connection=SimpleNamespace(listener=Listener(listener, "", 0)))


def test_a_client_sees_the_brokers_that_have_its_listener() -> None:
    members = (record(HERE, "IN", "OUT"), record(OTHER, "IN", "OUT"), record(INSIDE_ONLY, "IN"))

    nodes = view(*members).describe_nodes(call_through("OUT"))

    assert [(node["node_id"], node["host"]) for node in nodes] == [(1, "out-1"), (2, "out-2")]


def test_a_broker_without_a_registration_still_describes_itself() -> None:
    assert view().describe_nodes(call_through("IN")) == [
        {"node_id": HERE, "host": "in-1", "port": 9092, "rack": "rack-1"}
    ]


def test_leaders_that_a_response_hints_at_come_once_and_only_if_they_run() -> None:
    hints = [LeaderHint(OTHER, 0), None, LeaderHint(OTHER, 1), LeaderHint(BrokerId(9), 0)]

    endpoints = view(record(OTHER, "IN")).leader_endpoints(call_through("IN"), hints)

    assert endpoints == [NodeEndpoint(node_id=OTHER, host="in-2", port=9092, rack="rack-2")]
