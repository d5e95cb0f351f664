"""The other end of a mirror link: connections, leaders and offsets of another Kafka cluster."""

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from socket import socket
from typing import Any, NamedTuple
from uuid import UUID

from headrace.broker.network.tls import TlsSocket
from headrace.broker.peer.connection import PeerConnection, PeerLost
from headrace.broker.peer.connector import PeerLogin
from headrace.broker.peer.host_resolver import HostResolver
from headrace.model.error import ConfigError
from headrace.model.ids import BrokerId
from headrace.model.mirror_link_config import (
    BOOTSTRAP_SERVERS,
    CERTIFICATES,
    IDENTIFICATION,
    MIRROR_LINK_CONFIG,
    SASL_MECHANISM,
    SASL_PASSWORD,
    SASL_USERNAME,
    SECURITY_PROTOCOL,
    check_mirror_link,
    source_addresses,
)
from headrace.wire.api import ApiKey
from headrace.wire.error_code import error_name

NEWEST_FETCH = 17
# Topic ids in fetches (KIP-516): Kafka 3.1 and later.
OLDEST_FETCH = 13
_METADATA_VERSION = 12
_LIST_OFFSETS_VERSION = 7
_EARLIEST, _LATEST = -2, -1
_ANSWER_SECONDS = 20.0
_ANSWER_BYTES = 64 * 1024 * 1024


class SourcePartition(NamedTuple):
    """Who leads a partition of the source; -1 when it has no leader now."""

    leader: BrokerId
    leader_epoch: int


class SourceTopic(NamedTuple):
    """A topic of the source."""

    topic_id: UUID
    partitions: Mapping[int, SourcePartition]


class OffsetRange(NamedTuple):
    """Where a partition of the source starts and ends."""

    start: int
    end: int


class LinkTls:
    """What a link trusts, as a client of its source."""

    def __init__(self, certificates: str, *, check_hostname: bool) -> None:
        """
        Raises:
            ConfigError: no certificates.
        """
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._context.check_hostname = check_hostname
        if not certificates:
            self._context.load_default_certs()
            return
        try:
            self._context.load_verify_locations(cadata=certificates)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(f"{CERTIFICATES} holds no certificates as PEM: {error}") from error

    def connect(self, sock: socket, host: str) -> TlsSocket:
        return TlsSocket(
            self._context.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
        )


@dataclass(frozen=True, slots=True)
class SourceAccess:
    """How a source is reached."""

    servers: tuple[tuple[str, int], ...]
    tls: LinkTls | None
    login: PeerLogin | None

    @classmethod
    def of(cls, texts: Mapping[str, str]) -> "SourceAccess":
        """Return the access that a link's configuration describes.

        Raises:
            ConfigError: a link that cannot work.
        """
        values = MIRROR_LINK_CONFIG.parse(texts)
        check_mirror_link(values)
        protocol = str(values.get(SECURITY_PROTOCOL) or "PLAINTEXT")
        tls = login = None
        if protocol.endswith("SSL"):
            https = values.get(IDENTIFICATION, "https")
            tls = LinkTls(str(values.get(CERTIFICATES) or ""), check_hostname=https == "https")
        if protocol.startswith("SASL"):
            login = PeerLogin(
                str(values.get(SASL_MECHANISM) or "PLAIN"),
                str(values[SASL_USERNAME]),
                str(values[SASL_PASSWORD]),
            )
        return cls(tuple(source_addresses(values.get(BOOTSTRAP_SERVERS))), tls, login)


class SourceCluster:
    """Asks the source of a link. Lives on the event loop."""

    def __init__(self, access: SourceAccess) -> None:
        self._access = access
        # The names of one source are nothing that other links, or brokers, should wait for.
        self._resolver = HostResolver()
        self._brokers: dict[int, tuple[str, int]] = {}
        self._asking = asyncio.Lock()
        self._connection: PeerConnection | None = None

    async def connect(
        self, broker_id: BrokerId, *, limit_bytes: int = _ANSWER_BYTES
    ) -> PeerConnection:
        """Connect to a broker of the source, and log in.

        Raises:
            PeerLost: it cannot be reached, or is not known.
            PeerDenied: it does not let the link's user in.
        """
        address = self._brokers.get(broker_id)
        if address is None:
            raise PeerLost(f"the source has no broker {broker_id} now")
        return await self._open(*address, limit_bytes)

    async def fetch_version(self, connection: PeerConnection) -> int:
        """Return the version of Fetch to use.

        Raises:
            PeerLost: the source is too old, or did not answer.
        """
        answer = await connection.call(ApiKey.API_VERSIONS, 0, {}, _ANSWER_SECONDS)
        for api in answer.api_keys:
            if api.api_key == ApiKey.FETCH and api.max_version >= OLDEST_FETCH:
                return min(NEWEST_FETCH, int(api.max_version))
        raise PeerLost("the source does not know topic ids: Kafka 3.1 or later is needed")

    async def topics(self, names: Iterable[str]) -> dict[str, SourceTopic | str]:
        """Return the topics of these names, or why they are not there.

        Raises:
            PeerLost: no broker of the source answers.
        """
        body = {
            "topics": [{"topic_id": None, "name": name} for name in names],
            "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
        }
        answer = await self._ask(ApiKey.METADATA, _METADATA_VERSION, body)
        self._brokers = {each.node_id: (each.host, each.port) for each in answer.brokers}
        found: dict[str, SourceTopic | str] = {}
        for topic in answer.topics:
            if topic.name is None:
                continue
            found[topic.name] = (
                error_name(topic.error_code)
                if topic.error_code
                else SourceTopic(
                    topic.topic_id,
                    {
                        each.partition_index: SourcePartition(
                            BrokerId(each.leader_id), each.leader_epoch
                        )
                        for each in topic.partitions
                    },
                )
            )
        return found

    async def offsets(
        self, leader: BrokerId, leader_epoch: int, topic: str, partition: int
    ) -> OffsetRange:
        """Return where a partition starts and ends, by its leader of this epoch.

        Raises:
            PeerLost: its leader does not answer.
        """
        connection = await self.connect(leader)
        try:
            at = SourcePartition(leader, leader_epoch)
            start = await _list_offset(connection, at, topic, partition, _EARLIEST)
            end = await _list_offset(connection, at, topic, partition, _LATEST)
        finally:
            connection.close()
        return OffsetRange(start, end)

    def leader_was_wrong(self) -> None:
        """Ask another broker next: the one that was asked may not know of a change."""
        if self._connection is not None and not self._asking.locked():
            self._connection.close()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    async def _ask(self, api: ApiKey, version: int, body: Mapping[str, Any]) -> Any:
        """Ask any broker, beginning with the one that answered last."""
        async with self._asking:
            connection = self._connection
            if connection is not None and not connection.closed:
                try:
                    return await connection.call(api, version, body, _ANSWER_SECONDS)
                except PeerLost:
                    connection.close()
            reasons: list[str] = []
            for host, port in dict.fromkeys((*self._brokers.values(), *self._access.servers)):
                try:
                    self._connection = await self._open(host, port, _ANSWER_BYTES)
                    return await self._connection.call(api, version, body, _ANSWER_SECONDS)
                except PeerLost as error:
                    reasons.append(str(error))
            raise PeerLost("; ".join(reasons))

    async def _open(self, host: str, port: int, limit_bytes: int) -> PeerConnection:
        access = self._access
        if access.tls is None:
            connection = await PeerConnection.open(
                host, port, self._resolver, limit_bytes=limit_bytes
            )
        else:
            from headrace.broker.peer.tls_connection import TlsPeerConnection

            connection = await TlsPeerConnection.open_with(
                access.tls, host, port, self._resolver, limit_bytes=limit_bytes
            )
        if access.login is not None:
            try:
                await access.login.run(connection)
            except BaseException:
                connection.close()
                raise
        return connection


async def _list_offset(
    connection: PeerConnection, at: SourcePartition, topic: str, partition: int, time: int
) -> int:
    body = {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": partition,
                        "current_leader_epoch": at.leader_epoch,
                        "timestamp": time,
                    }
                ],
            }
        ],
    }
    answer = await connection.call(
        ApiKey.LIST_OFFSETS, _LIST_OFFSETS_VERSION, body, _ANSWER_SECONDS
    )
    [found] = answer.topics[0].partitions
    if found.error_code:
        raise PeerLost(f"no offsets of {topic}-{partition}: {error_name(found.error_code)}")
    return int(found.offset)
