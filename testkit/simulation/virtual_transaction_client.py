"""Requests of transactions between simulated brokers, in the place of `TransactionClient`.

What the receiver does is what the handlers of AddPartitionsToTxn and WriteTxnMarkers do.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

from headrace.broker.coordinator.marker_writer import Marker
from headrace.broker.coordinator.transaction_coordinator import TransactionCoordinator
from headrace.broker.replica.partition import Partition
from headrace.broker.replica.topic_table import TopicTable
from headrace.model.error import CoordinatorFenced, HeadraceError, InvalidProducerEpoch
from headrace.model.ids import BrokerId, TopicPartition
from headrace.transactions.effect import WriteMarkers
from headrace.transactions.error import TransactionError
from headrace.transactions.message import AddPartitions
from headrace.transactions.metadata import CLASSIC_VERSION, EPOCH_BUMP_VERSION
from testkit.simulation.virtual_call import Callee, CallHost, CallLost, virtual_call

_PATIENCE_MS = 700

Refused = dict[TopicPartition, TransactionError]


class TransactionPeer(Callee, Protocol):
    """A broker that takes part in transactions."""

    @property
    def topics(self) -> TopicTable: ...
    @property
    def transactions(self) -> TransactionCoordinator: ...
    async def safe(self, partition: Partition, end: int) -> None:
        """Return when the replicas in sync have everything below `end`."""


class VirtualTransactionClient:
    """Calls other brokers of the simulator for one of them.

    Args:
        peer: returns the broker of an id.
    """

    def __init__(
        self, host: CallHost, own: TransactionPeer, peer: Callable[[BrokerId], TransactionPeer]
    ) -> None:
        self._host = host
        self._own = own
        self._peer = peer

    async def join(self, coordinator: BrokerId, event: AddPartitions, *, implicit: bool) -> Refused:
        async def ask(peer: TransactionPeer) -> Refused:
            return await _join(peer, event, implicit=implicit)

        own = self._own
        try:
            return await virtual_call(
                self._host, own.broker_id, own.loop, self._peer(coordinator), ask, _PATIENCE_MS
            )
        except CallLost:
            return dict.fromkeys(event.partitions, TransactionError.COORDINATOR_NOT_AVAILABLE)

    async def write_markers(
        self, leader: BrokerId, markers: WriteMarkers, names: Iterable[TopicPartition]
    ) -> dict[TopicPartition, bool]:
        wanted = list(names)

        async def write(peer: TransactionPeer) -> dict[TopicPartition, bool]:
            return {name: await _write(peer, markers, name) for name in wanted}

        own = self._own
        try:
            return await virtual_call(
                self._host, own.broker_id, own.loop, self._peer(leader), write, _PATIENCE_MS
            )
        except CallLost:
            return dict.fromkeys(wanted, False)

    def forget(self, broker_id: BrokerId) -> None:
        """Do nothing: there is no connection, and a call that waits ends by itself."""

    def close(self) -> None:
        """Do nothing, as in `forget`."""


async def _join(peer: TransactionPeer, event: AddPartitions, *, implicit: bool) -> Refused:
    for name in event.partitions:
        if not peer.topics.exists(name.topic, name.partition):
            return dict.fromkeys(event.partitions, TransactionError.COORDINATOR_NOT_AVAILABLE)
    version = EPOCH_BUMP_VERSION if implicit else CLASSIC_VERSION
    event = replace(event, client_version=version)
    if implicit:
        added = await peer.transactions.add_partitions(event)
        return (
            {}
            if added.error is TransactionError.NONE
            else dict.fromkeys(event.partitions, added.error)
        )
    verified = peer.transactions.verify(event)
    found = {name: verified.partitions.get(name, verified.error) for name in event.partitions}
    return {name: error for name, error in found.items() if error is not TransactionError.NONE}


async def _write(peer: TransactionPeer, markers: WriteMarkers, name: TopicPartition) -> bool:
    """Return whether the partition needs the marker no more; the sender retries where it does."""
    marker = Marker(
        producer_id=markers.producer_id,
        producer_epoch=markers.producer_epoch,
        commit=markers.commit,
        coordinator_epoch=markers.coordinator_epoch,
        transaction_version=markers.client_version,
    )
    try:
        written = peer.transactions.markers.write(marker, name)
        if written is None:
            return False
        await peer.safe(written.partition, written.end)
    except (InvalidProducerEpoch, CoordinatorFenced):
        return True
    except HeadraceError:
        return False
    return True
