"""All routes of API v3: 39 paths."""

from typing import Final

from headrace.gateway.rest.access.right import Right
from headrace.gateway.rest.route import Handler, Route
from headrace.gateway.rest.v3 import acl, cluster, config, group, records, replica, topic

_CLUSTER: Final = "/v3/clusters/{cluster_id}"
_BROKER: Final = f"{_CLUSTER}/brokers/{{broker_id}}"
_GROUP: Final = f"{_CLUSTER}/consumer-groups/{{consumer_group_id}}"
_CONSUMER: Final = f"{_GROUP}/consumers/{{consumer_id}}"
_TOPIC: Final = f"{_CLUSTER}/topics/{{topic_name}}"
_PARTITION: Final = f"{_TOPIC}/partitions/{{partition_id}}"
_ACL_QUERY: Final = (
    "resource_type",
    "resource_name",
    "pattern_type",
    "principal",
    "host",
    "operation",
    "permission",
)


def _get(path: str, summary: str, handle: Handler, returns: str, right: Right) -> Route:
    return Route(
        method="GET", path=path, right=right, summary=summary, handle=handle, returns=returns
    )


def _configs(
    place: str,
    routes: config.ConfigRoutes,
    whose: str,
    returns: str,
    right: Right = Right.CLUSTER,
    reading: Right = Right.CLUSTER,
) -> list[Route]:
    one = f"{place}/{{name}}"
    return [
        _get(place, f"List the configuration of {whose}", routes.list, f"{returns}List", reading),
        Route(
            method="POST",
            path=f"{place}:alter",
            right=right,
            summary=f"Change many keys of {whose}",
            handle=routes.alter,
            takes="AlterConfigBatchRequest",
            status=204,
        ),
        _get(one, f"Get one key of {whose}", routes.get, returns, reading),
        Route(
            method="PUT",
            path=one,
            right=right,
            summary=f"Set one key of {whose}",
            handle=routes.set,
            takes="UpdateConfigRequest",
            status=204,
        ),
        Route(
            method="DELETE",
            path=one,
            right=right,
            summary=f"Reset one key of {whose}",
            handle=routes.reset,
            status=204,
        ),
    ]


_CLUSTERS: Final = [
    _get("/v3/clusters", "List clusters", cluster.list_clusters, "ClusterList", Right.LOGIN),
    _get(_CLUSTER, "Get a cluster", cluster.get_cluster, "Cluster", Right.LOGIN),
    _get(f"{_CLUSTER}/brokers", "List brokers", cluster.list_brokers, "BrokerList", Right.LOGIN),
    _get(_BROKER, "Get a broker", cluster.get_broker, "Broker", Right.LOGIN),
    _get(
        f"{_BROKER}/partition-replicas",
        "List the replicas on a broker",
        cluster.list_broker_replicas,
        "ReplicaList",
        Right.LOGIN,
    ),
]

_ACLS: Final = [
    Route(
        method="GET",
        path=f"{_CLUSTER}/acls",
        right=Right.CLUSTER,
        summary="Search ACLs",
        handle=acl.search_acls,
        returns="AclList",
        query=_ACL_QUERY,
    ),
    Route(
        method="POST",
        path=f"{_CLUSTER}/acls",
        right=Right.CLUSTER,
        summary="Create an ACL",
        handle=acl.create_acl,
        takes="CreateAclRequest",
        status=201,
    ),
    Route(
        method="DELETE",
        path=f"{_CLUSTER}/acls",
        right=Right.CLUSTER,
        summary="Delete ACLs",
        handle=acl.delete_acls,
        returns="DeletedAcls",
        query=_ACL_QUERY,
    ),
    Route(
        method="POST",
        path=f"{_CLUSTER}/acls:batch",
        right=Right.CLUSTER,
        summary="Create many ACLs",
        handle=acl.create_acls,
        takes="CreateAclBatchRequest",
        status=201,
    ),
]

_GROUPS: Final = [
    _get(
        f"{_CLUSTER}/consumer-groups",
        "List consumer groups",
        group.list_groups,
        "ConsumerGroupList",
        Right.LOGIN,
    ),
    _get(_GROUP, "Get a consumer group", group.get_group, "ConsumerGroup", Right.GROUP),
    _get(
        f"{_GROUP}/consumers",
        "List a group's members",
        group.list_consumers,
        "ConsumerList",
        Right.GROUP,
    ),
    _get(_CONSUMER, "Get a member of a group", group.get_consumer, "Consumer", Right.GROUP),
    _get(
        f"{_CONSUMER}/assignments",
        "List a member's partitions",
        group.list_assignments,
        "ConsumerAssignmentList",
        Right.GROUP,
    ),
    _get(
        f"{_CONSUMER}/assignments/{{topic_name}}/partitions/{{partition_id}}",
        "Get one partition of a member",
        group.get_assignment,
        "ConsumerAssignment",
        Right.GROUP,
    ),
    _get(
        f"{_GROUP}/lag-summary",
        "Get a group's largest and total lag",
        group.get_lag_summary,
        "ConsumerGroupLagSummary",
        Right.GROUP,
    ),
    _get(f"{_GROUP}/lags", "List a group's lags", group.list_lags, "ConsumerLagList", Right.GROUP),
    _get(
        f"{_GROUP}/lags/{{topic_name}}/partitions/{{partition_id}}",
        "Get a group's lag in one partition",
        group.get_lag,
        "ConsumerLag",
        Right.GROUP,
    ),
]

_TOPICS: Final = [
    _get(f"{_CLUSTER}/topics", "List topics", topic.list_topics, "TopicList", Right.LOGIN),
    Route(
        method="POST",
        path=f"{_CLUSTER}/topics",
        right=Right.BODY,
        summary="Create a topic",
        handle=topic.create_topic,
        takes="CreateTopicRequest",
        returns="Topic",
        status=201,
        also=(200,),
    ),
    _get(_TOPIC, "Get a topic", topic.get_topic, "Topic", Right.DESCRIBE),
    Route(
        method="PATCH",
        path=_TOPIC,
        right=Right.ADMIN,
        summary="Add partitions to a topic",
        handle=topic.grow_topic,
        takes="UpdatePartitionCountRequest",
        returns="Topic",
    ),
    Route(
        method="DELETE",
        path=_TOPIC,
        right=Right.ADMIN,
        summary="Delete a topic",
        handle=topic.delete_topic,
        status=204,
    ),
    _get(
        f"{_TOPIC}/partitions",
        "List partitions",
        topic.list_partitions,
        "PartitionList",
        Right.DESCRIBE,
    ),
    _get(_PARTITION, "Get a partition", topic.get_partition, "Partition", Right.DESCRIBE),
    _get(
        f"{_PARTITION}/offset",
        "Get where a partition begins and ends",
        topic.get_partition_offsets,
        "PartitionWithOffsets",
        Right.DESCRIBE,
    ),
    _get(
        f"{_PARTITION}/replicas",
        "List replicas",
        replica.list_replicas,
        "ReplicaList",
        Right.DESCRIBE,
    ),
    _get(
        f"{_PARTITION}/replicas/{{broker_id}}",
        "Get a replica",
        replica.get_replica,
        "Replica",
        Right.DESCRIBE,
    ),
    _get(
        f"{_CLUSTER}/topics/-/partitions/-/reassignment",
        "List all moves of replicas",
        replica.list_all_reassignments,
        "ReassignmentList",
        Right.LOGIN,
    ),
    _get(
        f"{_TOPIC}/partitions/-/reassignment",
        "List the moves of a topic's replicas",
        replica.list_reassignments,
        "ReassignmentList",
        Right.DESCRIBE,
    ),
    _get(
        f"{_PARTITION}/reassignment",
        "Get the move of a partition's replicas",
        replica.get_reassignment,
        "Reassignment",
        Right.DESCRIBE,
    ),
    Route(
        method="POST",
        path=f"{_TOPIC}/records",
        right=Right.WRITE,
        summary="Produce records, one JSON object after the other",
        handle_async=records.produce,
        takes="ProduceRequest",
        returns="ProduceResponse",
    ),
    Route(
        method="POST",
        path=f"{_TOPIC}/records:batch",
        right=Right.WRITE,
        summary="Produce a batch of records",
        handle_async=records.produce_batch,
        takes="ProduceBatchRequest",
        returns="ProduceBatchResponse",
        status=207,
    ),
]

V3_ROUTES: Final = [
    *_CLUSTERS,
    *_ACLS,
    *_configs(f"{_CLUSTER}/broker-configs", config.CLUSTER, "all brokers", "ClusterConfig"),
    *_configs(f"{_BROKER}/configs", config.BROKER, "a broker", "BrokerConfig"),
    *_configs(
        f"{_TOPIC}/configs", config.TOPIC, "a topic", "TopicConfig", Right.ADMIN, Right.DESCRIBE
    ),
    _get(
        f"{_CLUSTER}/brokers/-/configs",
        "List the configurations of each broker",
        config.list_all_broker_configs,
        "BrokerConfigList",
        Right.CLUSTER,
    ),
    _get(
        f"{_CLUSTER}/topics/-/configs",
        "List the configurations of each topic",
        config.list_all_topic_configs,
        "TopicConfigList",
        Right.LOGIN,
    ),
    *_GROUPS,
    *_TOPICS,
]
