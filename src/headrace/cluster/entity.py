"""Everything the cluster state is made of, and how each thing becomes a node of the store."""

import json

from headrace.cluster.acl import Acl
from headrace.cluster.broker import BrokerConfig, BrokerRecord
from headrace.cluster.credential import ScramCredential
from headrace.cluster.feature import Feature
from headrace.cluster.quota import ClientQuota
from headrace.cluster.resource_config import ResourceConfig
from headrace.cluster.store import Node, check_path, node_path, path_parts
from headrace.cluster.topic import TopicRecord
from headrace.model.error import CorruptLog

Entity = (
    TopicRecord
    | BrokerRecord
    | BrokerConfig
    | ResourceConfig
    | ClientQuota
    | ScramCredential
    | Acl
    | Feature
)

_TYPES: dict[str, type[Entity]] = {
    TopicRecord.KIND: TopicRecord,
    BrokerRecord.KIND: BrokerRecord,
    BrokerConfig.KIND: BrokerConfig,
    ResourceConfig.KIND: ResourceConfig,
    ClientQuota.KIND: ClientQuota,
    ScramCredential.KIND: ScramCredential,
    Acl.KIND: Acl,
    Feature.KIND: Feature,
}

KINDS = tuple(_TYPES)


def entity_path(entity: Entity) -> str:
    return node_path(entity.KIND, *entity.key())


def encode_entity(entity: Entity) -> bytes:
    return json.dumps(entity.to_json(), separators=(",", ":"), sort_keys=True).encode()


def decode_entity(node: Node) -> Entity:
    """Return the entity in a node.

    Raises:
        CorruptLog: when the node does not hold what its path says.
    """
    kind, _ = check_path(node.path)
    try:
        return _TYPES[kind].from_json(path_parts(node.path), json.loads(node.data))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise CorruptLog(
            f"the node {node.path} of the cluster store cannot be read: {error!r}"
        ) from error
