"""The schemas of bodies and responses, as the OpenAPI document names them. Pure data.

A field is written as the name of its type, with `?` for one that may be null or missing.
"""

from collections.abc import Mapping
from typing import Any, Final

Schema = dict[str, Any]

_TYPES: Final[Mapping[str, Schema]] = {
    "text": {"type": "string"},
    "number": {"type": "integer", "format": "int64"},
    "flag": {"type": "boolean"},
    "any": {},
    "link": {
        "type": "object",
        "required": ["related"],
        "properties": {"related": {"type": "string"}},
    },
    "numbers": {"type": "array", "items": {"type": "integer"}},
    "texts": {"type": "array", "items": {"type": "string"}},
}


def reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def array(name: str) -> Schema:
    return {"type": "array", "items": reference(name)}


def _field(kind: str) -> Schema:
    bare = kind.removesuffix("?")
    if bare.endswith("[]"):
        schema = array(bare.removesuffix("[]"))
    else:
        schema = dict(_TYPES[bare]) if bare in _TYPES else reference(bare)
    if kind.endswith("?") and "$ref" not in schema:
        schema["nullable"] = True
    return schema


def _object(**fields: str) -> Schema:
    return {
        "type": "object",
        "required": [name for name, kind in fields.items() if not kind.endswith("?")],
        "properties": {name: _field(kind) for name, kind in fields.items()},
    }


def _resource(**fields: str) -> Schema:
    return _object(kind="text", metadata="ResourceMetadata", cluster_id="text", **fields)


def _with_lists(schemas: dict[str, Schema]) -> dict[str, Schema]:
    lists = {
        f"{name}List": _object(kind="text", metadata="CollectionMetadata", data=f"{name}[]")
        for name in schemas
    }
    return schemas | lists


_CONFIG: Final = {
    "name": "text",
    "value": "text?",
    "is_default": "flag",
    "is_read_only": "flag",
    "is_sensitive": "flag",
    "source": "text",
    "synonyms": "ConfigSynonym[]",
}
_ACL: Final = {
    "resource_type": "text",
    "resource_name": "text",
    "pattern_type": "text",
    "principal": "text",
    "host": "text",
    "operation": "text",
    "permission": "text",
}

_RESOURCES: Final = _with_lists(
    {
        "Cluster": _resource(
            controller="link?",
            acls="link",
            brokers="link",
            broker_configs="link",
            consumer_groups="link",
            topics="link",
            partition_reassignments="link",
        ),
        "Broker": _resource(
            broker_id="number",
            host="text?",
            port="number?",
            rack="text?",
            configs="link",
            partition_replicas="link",
        ),
        "Acl": _resource(**_ACL),
        "ClusterConfig": _resource(config_type="text", **_CONFIG),
        "BrokerConfig": _resource(broker_id="number", **_CONFIG),
        "TopicConfig": _resource(topic_name="text", **_CONFIG),
        "Topic": _resource(
            topic_name="text",
            is_internal="flag",
            replication_factor="number",
            partitions_count="number",
            partitions="link",
            configs="link",
            partition_reassignments="link",
        ),
        "Partition": _resource(
            topic_name="text",
            partition_id="number",
            leader="link?",
            replicas="link",
            reassignment="link",
        ),
        "Replica": _resource(
            topic_name="text",
            partition_id="number",
            broker_id="number",
            is_leader="flag",
            is_in_sync="flag",
            broker="link",
        ),
        "Reassignment": _resource(
            topic_name="text",
            partition_id="number",
            adding_replicas="numbers",
            removing_replicas="numbers",
            replicas="link",
        ),
        "ConsumerGroup": _resource(
            consumer_group_id="text",
            is_simple="flag",
            partition_assignor="text",
            state="text",
            coordinator="link",
            consumers="link",
            lag_summary="link",
        ),
        "Consumer": _resource(
            consumer_group_id="text",
            consumer_id="text",
            instance_id="text?",
            client_id="text",
            assignments="link",
        ),
        "ConsumerAssignment": _resource(
            consumer_group_id="text",
            consumer_id="text",
            topic_name="text",
            partition_id="number",
            partition="link",
            lag="link",
        ),
        "ConsumerLag": _resource(
            consumer_group_id="text",
            topic_name="text",
            partition_id="number",
            consumer_id="text",
            instance_id="text?",
            client_id="text",
            current_offset="number",
            log_end_offset="number",
            lag="number",
        ),
    }
)

SCHEMAS: Final[Mapping[str, Schema]] = {
    "OpenApi": {"type": "object"},
    **_RESOURCES,
    "ResourceMetadata": _object(self="text", resource_name="text?"),
    "CollectionMetadata": _object(self="text", next="text?"),
    "Error": _object(error_code="number", message="text?"),
    "ConfigSynonym": _object(name="text", value="text?", source="text"),
    "DeletedAcls": _object(data="Acl[]"),
    "PartitionWithOffsets": _resource(
        topic_name="text", partition_id="number", earliest_offset="number", latest_offset="number"
    ),
    "ConsumerGroupLagSummary": _resource(
        consumer_group_id="text",
        max_lag_consumer_id="text",
        max_lag_instance_id="text?",
        max_lag_client_id="text",
        max_lag_topic_name="text",
        max_lag_partition_id="number",
        max_lag="number",
        total_lag="number",
        max_lag_consumer="link",
        max_lag_partition="link",
    ),
    "ConfigAlteration": _object(name="text", value="text?", operation="text?"),
    "AlterConfigBatchRequest": _object(data="ConfigAlteration[]", validate_only="flag?"),
    "UpdateConfigRequest": _object(value="text?"),
    "CreateAclRequest": _object(**_ACL),
    "CreateAclBatchRequest": _object(data="CreateAclRequest[]"),
    "ReplicaAssignment": _object(partition_id="number", broker_ids="numbers"),
    "TopicConfigValue": _object(name="text", value="text?"),
    "CreateTopicRequest": _object(
        topic_name="text",
        partitions_count="number?",
        replication_factor="number?",
        replicas_assignments="ReplicaAssignment[]?",
        configs="TopicConfigValue[]?",
        validate_only="flag?",
    ),
    "UpdatePartitionCountRequest": _object(partitions_count="number"),
    "ProduceData": _object(
        type="text?",
        data="any?",
        subject="text?",
        subject_name_strategy="text?",
        schema_id="number?",
        schema_version="number?",
        schema="text?",
    ),
    "ProduceHeader": _object(name="text", value="text?"),
    "ProduceRequest": _object(
        partition_id="number?",
        headers="ProduceHeader[]?",
        key="ProduceData?",
        value="ProduceData?",
        timestamp="text?",
    ),
    "ProducedData": _object(
        type="text?",
        size="number",
        subject="text?",
        schema_id="number?",
        schema_version="number?",
    ),
    "ProduceResponse": _object(
        error_code="number",
        message="text?",
        cluster_id="text?",
        topic_name="text?",
        partition_id="number?",
        offset="number?",
        timestamp="text?",
        key="ProducedData?",
        value="ProducedData?",
    ),
    "ProduceBatchEntry": _object(
        id="text",
        partition_id="number?",
        headers="ProduceHeader[]?",
        key="ProduceData?",
        value="ProduceData?",
        timestamp="text?",
    ),
    "ProduceBatchRequest": _object(entries="ProduceBatchEntry[]"),
    "ProduceBatchSuccess": _object(
        id="text",
        cluster_id="text",
        topic_name="text",
        partition_id="number",
        offset="number",
        timestamp="text?",
        key="ProducedData?",
        value="ProducedData?",
    ),
    "ProduceBatchFailure": _object(id="text", error_code="number", message="text?"),
    "ProduceBatchResponse": _object(
        successes="ProduceBatchSuccess[]", failures="ProduceBatchFailure[]"
    ),
    "Empty": {"type": "object"},
    "BrokerIds": _object(brokers="numbers"),
    "TopicNames": {"type": "array", "items": {"type": "string"}},
    "TopicV2": _object(name="text", configs="Empty", partitions="PartitionV2[]"),
    "PartitionsV2": array("PartitionV2"),
    "PartitionV2": _object(partition="number", leader="number", replicas="ReplicaV2[]"),
    "ReplicaV2": _object(broker="number", leader="flag", in_sync="flag"),
    "OffsetsV2": _object(beginning_offset="number", end_offset="number"),
    "ProduceRecordV2": _object(key="any?", value="any?", partition="number?"),
    "ProduceRequestV2": _object(
        records="ProduceRecordV2[]",
        key_schema="text?",
        key_schema_id="number?",
        value_schema="text?",
        value_schema_id="number?",
    ),
    "ProducedOffsetV2": _object(
        partition="number?", offset="number?", error_code="number?", error="text?"
    ),
    "ProduceResponseV2": _object(
        offsets="ProducedOffsetV2[]", key_schema_id="number?", value_schema_id="number?"
    ),
    "CreateConsumerRequest": {
        "type": "object",
        "properties": {
            name: {"type": "string"}
            for name in (
                "name",
                "format",
                "auto.offset.reset",
                "auto.commit.enable",
                "consumer.request.timeout.ms",
            )
        },
    },
    "CreateConsumerResponse": _object(instance_id="text", base_uri="text"),
    "SubscriptionRequest": _object(topics="texts?", topic_pattern="text?"),
    "Subscription": _object(topics="texts"),
    "AssignedPartition": _object(topic="text", partition="number"),
    "AssignedPartitions": _object(partitions="AssignedPartition[]"),
    "PartitionOffset": _object(topic="text", partition="number", offset="number", metadata="text?"),
    "OffsetList": _object(offsets="PartitionOffset[]?"),
    "ConsumedRecord": _object(
        topic="text", key="any?", value="any?", partition="number", offset="number"
    ),
    "ConsumedRecords": array("ConsumedRecord"),
}
