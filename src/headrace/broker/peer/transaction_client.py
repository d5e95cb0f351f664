"""Requests of transactions to other brokers: to coordinators, and to leaders of partitions.

Only Kafka's own requests are used: AddPartitionsToTxn from a partition's leader to the coordinator
(KIP-890), WriteTxnMarkers from the coordinator to the leaders. Nothing is retried here: the caller
decides when to send a request again.
"""

import asyncio
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

import structlog

from headrace.broker.peer.connection import PeerConnection, PeerLost
from headrace.broker.peer.connector import PeerConnector
from headrace.model.ids import BrokerId, TopicPartition
from headrace.transactions.effect import WriteMarkers
from headrace.transactions.error import TransactionError
from headrace.transactions.message import AddPartitions
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode

log = structlog.get_logger(__name__)

_VERIFY_VERSION = 4
_ADD_VERSION = 5
# Version 2 carries the transaction's version, by which a leader tells a late marker from that of
# the next transaction (KIP-890). A broker of an earlier release knows version 1 alone.
_NEWEST_MARKERS_VERSION = 2
_OLDEST_MARKERS_VERSION = 1
_API_VERSIONS_VERSION = 0
_ANSWER_SECONDS = 10.0

# The leader has a later marker or producer there: a retry would fail, too.
_REFUSED = (ErrorCode.invalid_producer_epoch, ErrorCode.transaction_coordinator_fenced)


class _Peer(NamedTuple):
    """A broker that is connected, and the version of WriteTxnMarkers that it knows."""

    connection: PeerConnection
    markers_version: int


class TransactionClient:
    """One connection per broker, opened when it is needed. Lives on the event loop."""

    def __init__(self, connector: PeerConnector) -> None:
        self._connector = connector
        self._connections: dict[BrokerId, asyncio.Task[_Peer]] = {}

    async def join(
        self, coordinator: BrokerId, event: AddPartitions, *, implicit: bool
    ) -> dict[TopicPartition, TransactionError]:
        """Return the partitions that are not in the transaction, and why; with `implicit` they are
        added to it first."""
        version = _ADD_VERSION if implicit else _VERIFY_VERSION
        wanted = {
            "transactional_id": event.transactional_id,
            "producer_id": event.producer_id,
            "producer_epoch": event.producer_epoch,
            "verify_only": not implicit,
            "topics": [
                {"name": topic, "partitions": [each.partition for each in names]}
                for topic, names in _by_topic(event.partitions)
            ],
        }
        try:
            peer = await self._peer(coordinator)
            answer = await peer.connection.call(
                ApiKey.ADD_PARTITIONS_TO_TXN, version, {"transactions": [wanted]}, _ANSWER_SECONDS
            )
        except PeerLost as error:
            log.info("transaction_coordinator_lost", reason=str(error))
            return dict.fromkeys(event.partitions, TransactionError.COORDINATOR_NOT_AVAILABLE)
        refused: dict[TopicPartition, TransactionError] = {}
        if answer.error_code:
            return dict.fromkeys(event.partitions, _error(answer.error_code))
        for transaction in answer.results_by_transaction:
            for topic in transaction.topic_results:
                for result in topic.results_by_partition:
                    if result.partition_error_code:
                        name = TopicPartition(topic.name, result.partition_index)
                        refused[name] = _error(result.partition_error_code)
        return refused

    async def write_markers(
        self, leader: BrokerId, markers: WriteMarkers, names: Iterable[TopicPartition]
    ) -> dict[TopicPartition, bool]:
        """Send markers to a leader, and return which of the partitions need none (any more)."""
        names = list(names)
        wanted = {
            "producer_id": markers.producer_id,
            "producer_epoch": markers.producer_epoch,
            "transaction_result": markers.commit,
            "coordinator_epoch": markers.coordinator_epoch,
            "transaction_version": markers.client_version,
            "topics": [
                {"name": topic, "partition_indexes": [each.partition for each in found]}
                for topic, found in _by_topic(names)
            ],
        }
        try:
            peer = await self._peer(leader)
            answer = await peer.connection.call(
                ApiKey.WRITE_TXN_MARKERS,
                peer.markers_version,
                {"markers": [wanted]},
                _ANSWER_SECONDS,
            )
        except PeerLost as error:
            log.info("markers_not_sent", leader=leader, reason=str(error))
            return dict.fromkeys(names, False)
        done = dict.fromkeys(names, False)
        for marker in answer.markers:
            for topic in marker.topics:
                for result in topic.partitions:
                    name = TopicPartition(topic.name, result.partition_index)
                    done[name] = not result.error_code or result.error_code in _REFUSED
        return done

    async def _peer(self, broker_id: BrokerId) -> _Peer:
        connecting = self._connections.get(broker_id)
        if connecting is None or _broken(connecting):
            connecting = asyncio.get_running_loop().create_task(self._connect(broker_id))
            self._connections[broker_id] = connecting
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            if connecting.cancelled():
                raise PeerLost(f"broker {broker_id} lost its registration") from None
            raise

    async def _connect(self, broker_id: BrokerId) -> _Peer:
        """Connect, and ask which requests the broker knows: it may run an earlier release."""
        connection = await self._connector.connect(broker_id)
        try:
            known = await connection.call(
                ApiKey.API_VERSIONS, _API_VERSIONS_VERSION, {}, _ANSWER_SECONDS
            )
        except BaseException:
            connection.close()
            raise
        newest = next(
            (
                each.max_version
                for each in known.api_keys
                if each.api_key == ApiKey.WRITE_TXN_MARKERS
            ),
            _OLDEST_MARKERS_VERSION,
        )
        return _Peer(connection, min(newest, _NEWEST_MARKERS_VERSION))

    def forget(self, broker_id: BrokerId) -> None:
        """Close the connection to a broker that lost its registration: a request that waits on it
        fails now, instead of hanging, and goes to the new leader."""
        connecting = self._connections.pop(broker_id, None)
        if connecting is None:
            return
        if not connecting.done():
            connecting.cancel()
        elif not connecting.cancelled() and connecting.exception() is None:
            connecting.result().connection.close()

    def close(self) -> None:
        for broker_id in list(self._connections):
            self.forget(broker_id)


def _broken(connecting: "asyncio.Task[_Peer]") -> bool:
    if not connecting.done():
        return False
    if connecting.cancelled() or connecting.exception() is not None:
        return True
    return connecting.result().connection.closed


def _by_topic(
    names: Iterable[TopicPartition],
) -> Iterable[tuple[str, Iterable[TopicPartition]]]:
    return [
        (topic, list(found)) for topic, found in groupby(sorted(names), lambda each: each.topic)
    ]


def _error(code: int) -> TransactionError:
    """Return the domain error of a code; one that has none is reported as worth a retry."""
    try:
        return TransactionError[ErrorCode(code).name.upper()]
    except (KeyError, ValueError):
        return TransactionError.COORDINATOR_NOT_AVAILABLE
