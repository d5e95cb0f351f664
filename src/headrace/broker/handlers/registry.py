"""Every API that has a handler. One that is not here is neither advertised nor served.

The handler of an API lies in the file of its name and is imported with the first request: a broker
serves its first client before it has loaded what hardly any client uses. `load_all` imports the
rest in the background, so that no request waits for it later.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

from headrace.wire.api import ApiKey

Handler: TypeAlias = Callable[..., Any]
"""`handle(broker, call)`: returns the response's fields, a coroutine of them, or parts to send."""

SERVED = frozenset(
    {
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.API_VERSIONS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.CREATE_ACLS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_ACLS,
        ApiKey.DELETE_GROUPS,
        ApiKey.DELETE_RECORDS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DESCRIBE_ACLS,
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        ApiKey.DESCRIBE_CLUSTER,
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        ApiKey.ELECT_LEADERS,
        ApiKey.END_TXN,
        ApiKey.FETCH,
        ApiKey.FIND_COORDINATOR,
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
        ApiKey.HEARTBEAT,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.JOIN_GROUP,
        ApiKey.LEAVE_GROUP,
        ApiKey.LIST_CONFIG_RESOURCES,
        ApiKey.LIST_GROUPS,
        ApiKey.LIST_OFFSETS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_TRANSACTIONS,
        ApiKey.METADATA,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_DELETE,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.PRODUCE,
        ApiKey.PUSH_TELEMETRY,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.SYNC_GROUP,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.UPDATE_FEATURES,
        ApiKey.WRITE_TXN_MARKERS,
    }
)


def load(api: ApiKey) -> Handler:
    """Return the handler of a served API."""
    module = import_module(f"headrace.broker.handlers.{api.name.lower()}")
    assert module.API is api
    handle: Handler = module.handle
    return handle


def load_all() -> None:
    for api in sorted(SERVED):
        load(api)
