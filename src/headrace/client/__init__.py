"""A Kafka-protocol client for bulk work: Arrow tables out of topics, Arrow tables into topics.

    >>> from headrace.client import Reader, Writer

It works with Headrace and with Apache Kafka; `docs/client.md` shows how. Importing the package is
cheap: each name is loaded from its own file on first use.

Reading:
    Reader: reads ranges of partitions, or whole topics, as Arrow record batches.
    ReaderOptions: the options of `Reader`, for functions that pass them on.
    ReadRange, LogEdge, Moment: which records of a partition to read.
    Chunk: some records of one partition, and the offset after them.
    LostRange: offsets that a reader skipped because they are gone.

Writing:
    Writer: writes Arrow tables, idempotently or in transactions.
    AcknowledgedRecords: what one partition has acknowledged, in `Writer.written`.
    OffsetAndMetadata, GroupMembership: what `Writer.send_offsets` commits, and as which member.
    PreparedTransaction: an open transaction that another process commits or aborts.

Administration, through a `ConnectionPool`:
    Admin: creates, changes and deletes topics; reads and changes configurations.
    NewTopic, ConfigChange, ConfigOperation, ConfigEntry, ConfigSource, ConfigResourceType: its
        arguments and results.
    GroupAdmin: lists, describes and changes consumer groups.
    GroupListing, GroupDescription, MemberDescription: its results.
    ReplicaAdmin: elects leaders and moves replicas.
    GroupMember: membership in a consumer group, for programs that share out partitions.

Connecting:
    ClientSettings: Kafka's client configuration, typed; most calls take a mapping instead.
    ConnectionPool: the connections of one thread to one cluster.
    TopicPartition: the name of a topic and the number of a partition.

Errors, all of them `ClientError`s except the last two:
    ClientError: the base of every error of the client.
    BrokerError: a broker refused one item of a request.
    Unreachable, ConnectionLost: no broker could be reached, or no response came.
    AuthenticationFailed: the broker refused the credentials.
    Unsupported: the broker lacks an API.
    PositionOutOfRange, DamagedBatch: what a reader cannot read.
    WriteFailed, ProducerFenced: why a writer or its transaction has ended.
    ConfigError, InvalidArgument: a wrong setting, or a wrong argument.
"""

from typing import TYPE_CHECKING

from headrace.model.lazy_import import lazy_names

__all__ = [
    "AcknowledgedRecords",
    "Admin",
    "AuthenticationFailed",
    "BrokerError",
    "Chunk",
    "ClientError",
    "ClientSettings",
    "ConfigChange",
    "ConfigEntry",
    "ConfigError",
    "ConfigOperation",
    "ConfigResourceType",
    "ConfigSource",
    "ConnectionLost",
    "ConnectionPool",
    "DamagedBatch",
    "GroupAdmin",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupMembership",
    "InvalidArgument",
    "LogEdge",
    "LostRange",
    "MemberDescription",
    "Moment",
    "NewTopic",
    "OffsetAndMetadata",
    "PositionOutOfRange",
    "PreparedTransaction",
    "ProducerFenced",
    "ReadRange",
    "Reader",
    "ReaderOptions",
    "ReplicaAdmin",
    "TopicPartition",
    "Unreachable",
    "Unsupported",
    "WriteFailed",
    "Writer",
]

if TYPE_CHECKING:
    from headrace.client.admin.admin import Admin, ConfigChange, ConfigEntry, NewTopic
    from headrace.client.admin.replica_admin import ReplicaAdmin
    from headrace.client.error import (
        AuthenticationFailed,
        BrokerError,
        ClientError,
        ConnectionLost,
        DamagedBatch,
        PositionOutOfRange,
        ProducerFenced,
        Unreachable,
        Unsupported,
        WriteFailed,
    )
    from headrace.client.group.group_admin import (
        GroupAdmin,
        GroupDescription,
        GroupListing,
        MemberDescription,
    )
    from headrace.client.group.member import GroupMember
    from headrace.client.network.pool import ConnectionPool
    from headrace.client.read.chunk import Chunk
    from headrace.client.read.read_range import LogEdge, Moment, ReadRange
    from headrace.client.read.reader import LostRange, Reader, ReaderOptions
    from headrace.client.settings import ClientSettings
    from headrace.client.write.partition_queue import AcknowledgedRecords
    from headrace.client.write.prepared_transaction import PreparedTransaction
    from headrace.client.write.transaction_calls import GroupMembership, OffsetAndMetadata
    from headrace.client.write.writer import Writer
    from headrace.model.config_code import ConfigOperation, ConfigResourceType, ConfigSource
    from headrace.model.error import ConfigError, InvalidArgument
    from headrace.model.ids import TopicPartition
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "AcknowledgedRecords": "headrace.client.write.partition_queue",
            "Admin": "headrace.client.admin.admin",
            "AuthenticationFailed": "headrace.client.error",
            "BrokerError": "headrace.client.error",
            "Chunk": "headrace.client.read.chunk",
            "ClientError": "headrace.client.error",
            "ClientSettings": "headrace.client.settings",
            "ConfigChange": "headrace.client.admin.admin",
            "ConfigEntry": "headrace.client.admin.admin",
            "ConfigError": "headrace.model.error",
            "ConfigOperation": "headrace.model.config_code",
            "ConfigResourceType": "headrace.model.config_code",
            "ConfigSource": "headrace.model.config_code",
            "ConnectionLost": "headrace.client.error",
            "ConnectionPool": "headrace.client.network.pool",
            "DamagedBatch": "headrace.client.error",
            "GroupAdmin": "headrace.client.group.group_admin",
            "GroupDescription": "headrace.client.group.group_admin",
            "GroupListing": "headrace.client.group.group_admin",
            "GroupMember": "headrace.client.group.member",
            "GroupMembership": "headrace.client.write.transaction_calls",
            "InvalidArgument": "headrace.model.error",
            "LogEdge": "headrace.client.read.read_range",
            "LostRange": "headrace.client.read.reader",
            "MemberDescription": "headrace.client.group.group_admin",
            "Moment": "headrace.client.read.read_range",
            "NewTopic": "headrace.client.admin.admin",
            "OffsetAndMetadata": "headrace.client.write.transaction_calls",
            "PositionOutOfRange": "headrace.client.error",
            "PreparedTransaction": "headrace.client.write.prepared_transaction",
            "ProducerFenced": "headrace.client.error",
            "ReadRange": "headrace.client.read.read_range",
            "Reader": "headrace.client.read.reader",
            "ReaderOptions": "headrace.client.read.reader",
            "ReplicaAdmin": "headrace.client.admin.replica_admin",
            "TopicPartition": "headrace.model.ids",
            "Unreachable": "headrace.client.error",
            "Unsupported": "headrace.client.error",
            "WriteFailed": "headrace.client.error",
            "Writer": "headrace.client.write.writer",
        },
    )
