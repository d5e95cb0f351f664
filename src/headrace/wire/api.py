"""Every API we serve: its key, its versions, and where it became flexible (KIP-482).

The ranges are those of Apache Kafka 4.2. Rule 1: never raise the lowest version of a group or
transaction API, librdkafka uses the oldest ones. Rule 2: Produce is advertised from 0 and served
from 3, because librdkafka misreads a higher minimum (KAFKA-18659).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType


class ApiKey(IntEnum):
    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75


@dataclass(frozen=True, slots=True)
class Api:
    """One API.

    Attributes:
        lowest, highest: the versions we serve, both inclusive.
        first_flexible: from this version on, strings and arrays are compact and tagged fields
            may follow; None when no version is.
        advertised_lowest: the minimum that ApiVersions reports; differs from `lowest` for Produce.
        name: as Kafka writes it: `ListOffsets`. Every request is counted under it.
    """

    key: ApiKey
    lowest: int
    highest: int
    first_flexible: int | None
    advertised_lowest: int
    name: str = field(init=False)

    def __post_init__(self) -> None:
        name = "".join(word.capitalize() for word in self.key.name.split("_"))
        object.__setattr__(self, "name", name)

    def serves(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def flexible(self, version: int) -> bool:
        return self.first_flexible is not None and version >= self.first_flexible

    def request_header_version(self, version: int) -> int:
        return 2 if self.flexible(version) else 1

    def response_header_version(self, version: int) -> int:
        """Return 1 for flexible versions, except for ApiVersions: a client that does not know our
        versions yet must be able to read that one, so its header stays at 0 (KIP-511)."""
        return 1 if self.flexible(version) and self.key is not ApiKey.API_VERSIONS else 0


def _table(
    rows: Mapping[ApiKey, tuple[int, int, int | None]],
) -> Mapping[int, Api]:
    apis = {
        int(key): Api(key, lowest, highest, flexible, 0 if key is ApiKey.PRODUCE else lowest)
        for key, (lowest, highest, flexible) in rows.items()
    }
    assert len(apis) == len(ApiKey)
    return MappingProxyType(apis)


# key: (lowest, highest, first flexible)
APIS: Mapping[int, Api] = _table(
    {
        ApiKey.PRODUCE: (3, 13, 9),
        ApiKey.FETCH: (4, 18, 12),
        ApiKey.LIST_OFFSETS: (1, 11, 6),
        ApiKey.METADATA: (0, 13, 9),
        ApiKey.OFFSET_COMMIT: (2, 10, 8),
        ApiKey.OFFSET_FETCH: (1, 10, 6),
        ApiKey.FIND_COORDINATOR: (0, 6, 3),
        ApiKey.JOIN_GROUP: (0, 9, 6),
        ApiKey.HEARTBEAT: (0, 4, 4),
        ApiKey.LEAVE_GROUP: (0, 5, 4),
        ApiKey.SYNC_GROUP: (0, 5, 4),
        ApiKey.DESCRIBE_GROUPS: (0, 6, 5),
        ApiKey.LIST_GROUPS: (0, 5, 3),
        ApiKey.SASL_HANDSHAKE: (0, 1, None),
        ApiKey.API_VERSIONS: (0, 4, 3),
        ApiKey.CREATE_TOPICS: (2, 7, 5),
        ApiKey.DELETE_TOPICS: (1, 6, 4),
        ApiKey.DELETE_RECORDS: (0, 2, 2),
        ApiKey.INIT_PRODUCER_ID: (0, 5, 2),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4, 4),
        ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5, 3),
        ApiKey.ADD_OFFSETS_TO_TXN: (0, 4, 3),
        ApiKey.END_TXN: (0, 5, 3),
        ApiKey.WRITE_TXN_MARKERS: (1, 2, 1),
        ApiKey.TXN_OFFSET_COMMIT: (0, 5, 3),
        ApiKey.DESCRIBE_ACLS: (1, 3, 2),
        ApiKey.CREATE_ACLS: (1, 3, 2),
        ApiKey.DELETE_ACLS: (1, 3, 2),
        ApiKey.DESCRIBE_CONFIGS: (1, 4, 4),
        ApiKey.ALTER_CONFIGS: (0, 2, 2),
        ApiKey.ALTER_REPLICA_LOG_DIRS: (1, 2, 2),
        ApiKey.DESCRIBE_LOG_DIRS: (1, 4, 2),
        ApiKey.SASL_AUTHENTICATE: (0, 2, 2),
        ApiKey.CREATE_PARTITIONS: (0, 3, 2),
        ApiKey.DELETE_GROUPS: (0, 2, 2),
        ApiKey.ELECT_LEADERS: (0, 2, 2),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1, 1),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1, 0),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0, 0),
        ApiKey.OFFSET_DELETE: (0, 0, None),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1, 1),
        ApiKey.ALTER_CLIENT_QUOTAS: (0, 1, 1),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0, 0),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0, 0),
        ApiKey.UPDATE_FEATURES: (0, 2, 0),
        ApiKey.DESCRIBE_CLUSTER: (0, 2, 0),
        ApiKey.DESCRIBE_PRODUCERS: (0, 0, 0),
        ApiKey.UNREGISTER_BROKER: (0, 0, 0),
        ApiKey.DESCRIBE_TRANSACTIONS: (0, 0, 0),
        ApiKey.LIST_TRANSACTIONS: (0, 2, 0),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1, 0),
        ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1, 0),
        ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: (0, 0, 0),
        ApiKey.PUSH_TELEMETRY: (0, 0, 0),
        ApiKey.LIST_CONFIG_RESOURCES: (0, 1, 0),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0, 0),
    }
)


def supported(api_key: int, version: int) -> bool:
    """Return whether we can read this version of this API and answer it.

    >>> supported(ApiKey.FETCH, 18), supported(ApiKey.PRODUCE, 2), supported(999, 0)
    (True, False, False)
    """
    api = APIS.get(api_key)
    return api is not None and api.serves(version)
