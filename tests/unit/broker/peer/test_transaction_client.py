"""What a coordinator sends to other brokers, of this release and of earlier ones."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.peer.connection import PeerLost
from headrace.broker.peer.transaction_client import TransactionClient
from headrace.model.ids import BrokerId, ProducerEpoch, ProducerId, TopicPartition
from headrace.transactions.effect import WriteMarkers
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.request import pack_request

PARTITION = TopicPartition("clicks", 0)
MARKERS = WriteMarkers(
    ending=1,
    transactional_id="t",
    producer_id=ProducerId(7),
    producer_epoch=ProducerEpoch(3),
    coordinator_epoch=2,
    commit=True,
    client_version=2,
    partitions=frozenset({PARTITION}),
)


class Peer:
    """Another broker: a connector and a connection in one. It notes the markers it gets."""

    def __init__(self, newest: int, code: ErrorCode = ErrorCode.none) -> None:
        self.newest = newest
        self.code = code
        self.connected = 0
        self.closed = False
        self.markers: list[tuple[int, Mapping[str, Any]]] = []

    async def connect(self, broker_id: BrokerId) -> "Peer":
        self.connected += 1
        self.closed = False
        return self

    async def call(self, api: ApiKey, version: int, body: Mapping[str, Any], seconds: float) -> Any:
        pack_request(api, version, 1, "test", body)  # the body must fit the version
        if api is ApiKey.API_VERSIONS:
            known = SimpleNamespace(api_key=27, min_version=0, max_version=self.newest)
            return SimpleNamespace(error_code=0, api_keys=[known])
        assert api is ApiKey.WRITE_TXN_MARKERS
        self.markers += [(version, marker) for marker in body["markers"]]
        result = SimpleNamespace(partition_index=0, error_code=self.code)
        topic = SimpleNamespace(name="clicks", partitions=[result])
        return SimpleNamespace(markers=[SimpleNamespace(topics=[topic])])

    def close(self) -> None:
        self.closed = True


def send(peer: Peer, times: int = 1) -> dict[TopicPartition, bool]:
    async def run() -> dict[TopicPartition, bool]:
        client = TransactionClient(peer)  # type: ignore[arg-type]
        for _ in range(times):
            done = await client.write_markers(BrokerId(2), MARKERS, [PARTITION])
        client.close()
        return done

    return asyncio.run(run())


def test_markers_carry_the_version_of_their_transaction() -> None:
    peer = Peer(newest=2)

    assert send(peer) == {PARTITION: True}

    ((version, marker),) = peer.markers
    assert (version, marker["transaction_version"]) == (2, 2)


def test_a_broker_of_an_earlier_release_gets_the_version_it_knows() -> None:
    peer = Peer(newest=1)

    assert send(peer) == {PARTITION: True}

    assert [version for version, _ in peer.markers] == [1]


def test_a_later_release_gets_the_newest_version_of_ours() -> None:
    peer = Peer(newest=9)
    send(peer)
    assert [version for version, _ in peer.markers] == [2]


def test_versions_are_asked_for_once_per_connection() -> None:
    peer = Peer(newest=2)
    send(peer, times=3)
    assert (peer.connected, len(peer.markers), peer.closed) == (1, 3, True)


def test_a_late_marker_that_the_leader_refuses_is_not_sent_again() -> None:
    assert send(Peer(newest=2, code=ErrorCode.invalid_producer_epoch)) == {PARTITION: True}


def test_a_broker_that_is_lost_while_versions_are_asked_for_leaves_the_marker_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peer = Peer(newest=2)

    async def lost(*_: Any) -> Any:
        raise PeerLost("gone")

    monkeypatch.setattr(peer, "call", lost)

    assert send(peer) == {PARTITION: False}
    assert peer.closed
