"""Clusters and brokers."""

from typing import Any

from headrace.client.network.metadata import BrokerMetadata, Metadata
from headrace.gateway.rest.error import RestError
from headrace.gateway.rest.request import Answer, Call
from headrace.gateway.rest.v3.replica import replica
from headrace.gateway.rest.v3.resource import check_cluster, collection, related, resource


def list_clusters(call: Call) -> Answer:
    """Return the one cluster behind the proxy."""
    found = [_cluster(call, call.pool.metadata(()))]
    return Answer(
        {
            "kind": "KafkaClusterList",
            "metadata": {"self": f"{call.base_url}/v3/clusters", "next": None},
            "data": found,
        }
    )


def get_cluster(call: Call) -> Answer:
    check_cluster(call)
    return Answer(_cluster(call, call.pool.metadata(())))


def list_brokers(call: Call) -> Answer:
    check_cluster(call)
    brokers = call.pool.metadata(()).brokers
    data = [_broker(call, each) for _, each in sorted(brokers.items())]
    return Answer(collection(call, "KafkaBrokerList", ("brokers",), data))


def get_broker(call: Call) -> Answer:
    check_cluster(call)
    return Answer(_broker(call, _find(call)))


def list_broker_replicas(call: Call) -> Answer:
    """Return the replicas of all topics that are on one broker."""
    check_cluster(call)
    wanted = _find(call).node_id
    data = [
        replica(call, topic.name, partition, wanted)
        for _, topic in sorted(call.pool.metadata().topics.items())
        for partition in topic.partitions.values()
        if wanted in partition.replicas and call.can_describe(topic.name)
    ]
    path = ("brokers", wanted, "partition-replicas")
    return Answer(collection(call, "KafkaReplicaList", path, data))


def _find(call: Call) -> BrokerMetadata:
    node_id = call.request.number("broker_id")
    broker = call.pool.metadata(()).brokers.get(node_id)
    if broker is None:
        raise RestError(404, f"Broker {node_id} cannot be found.")
    return broker


def _cluster(call: Call, metadata: Metadata) -> dict[str, Any]:
    links = {
        "acls": related(call, "acls"),
        "brokers": related(call, "brokers"),
        "broker_configs": related(call, "broker-configs"),
        "consumer_groups": related(call, "consumer-groups"),
        "topics": related(call, "topics"),
        "partition_reassignments": related(call, "topics", "-", "partitions", "-", "reassignment"),
    }
    if metadata.controller in metadata.brokers:
        links = {"controller": related(call, "brokers", metadata.controller), **links}
    return resource(call, "KafkaCluster", (), "", **links)


def _broker(call: Call, broker: BrokerMetadata) -> dict[str, Any]:
    node_id = broker.node_id
    return resource(
        call,
        "KafkaBroker",
        ("brokers", node_id),
        f"broker={node_id}",
        broker_id=node_id,
        host=broker.address.host,
        port=broker.address.port,
        rack=broker.rack,
        configs=related(call, "brokers", node_id, "configs"),
        partition_replicas=related(call, "brokers", node_id, "partition-replicas"),
    )
