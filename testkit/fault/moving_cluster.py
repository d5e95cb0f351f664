"""A small cluster whose leader moves when a test says so, for clients that must find it again.

It serves a reader's requests from batches in memory, and checks leaders and epochs as a broker
does. All other behaviour of brokers is tested with real ones.
"""

import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any
from uuid import UUID

from headrace.records.batch import Batch
from headrace.wire.api import APIS, ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_request import FetchPartition, FetchRequest
from headrace.wire.fetch_response import (
    FetchPartitionResult,
    FetchTopicResult,
    pack_fetch_response,
)
from headrace.wire.request import Request, parse_request
from headrace.wire.response import api_versions_body, pack_response

TOPIC_ID = UUID(int=7)
_APIS = (
    ApiKey.API_VERSIONS,
    ApiKey.METADATA,
    ApiKey.FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.DESCRIBE_CONFIGS,
)
_EARLIEST = -2
_NO_EPOCH = -1
_SIZE_BYTES = 4
_GARBLED_BYTES = 20


class MovingCluster:
    """Brokers 1 to n on loopback and one topic `clicks`. Only its partition 0 can be fetched.

    Attributes:
        partitions: how many partitions the topic has.
        leader, epoch: the leader and its epoch. `move` changes both.
        advertised: leader and epoch in the metadata; `move` updates it unless `advertise` is False.
        topic_errors: the errors of the next Metadata responses, one each.
        tail: how many offsets without a record lie after the last batch.
        topic_id, cluster_id: what the metadata says; a topic that is created again has another id.
        log_start: the first offset that ListOffsets names.
        lookups: the times, or what stands for one, that ListOffsets was asked for.
        last_stable: the first offset of the open transaction; None without one.
        configs: the topic's configuration, or None to refuse it to clients.
        silent_fetches: how many of the next fetches get no records, as when a remote read takes
            too long.
        garbled_fetches: how many of the next fetches get responses that cannot be parsed.
        waits_ms: the max_wait_ms of each fetch.
        refused: the errors that fetches got.
        on_fetch: called with the node before it responds to a fetch.
    """

    def __init__(self, batches: Sequence[bytes], nodes: int = 2) -> None:
        self._batches = [Batch(data) for data in batches]
        self._listeners = {
            node: socket.create_server(("127.0.0.1", 0)) for node in range(1, nodes + 1)
        }
        self.leader, self.epoch = 1, 0
        self.advertised = (1, 0)
        self.topic_errors: list[ErrorCode] = []
        self.tail = 0
        self.partitions = 1
        self.topic_id: UUID | None = TOPIC_ID
        self.cluster_id: str | None = None
        self.log_start = 0
        self.lookups: list[int] = []
        self.last_stable: int | None = None
        self.configs: dict[str, str] | None = {"cleanup.policy": "compact"}
        self.silent_fetches = 0
        self.garbled_fetches = 0
        self.waits_ms: list[int] = []
        self.refused: list[ErrorCode] = []
        self.on_fetch: Callable[[int], None] = lambda node: None
        for node in self._listeners:
            threading.Thread(target=self._listen, args=(node,), daemon=True).start()

    @property
    def address(self) -> str:
        """The address of the first broker, whose metadata names the others."""
        host, port = self._listeners[1].getsockname()
        return f"{host}:{port}"

    def move(self, leader: int, *, advertise: bool = True) -> None:
        """Make another broker the leader, with the next epoch."""
        self.leader, self.epoch = leader, self.epoch + 1
        if advertise:
            self.advertised = (self.leader, self.epoch)

    def _listen(self, node: int) -> None:
        while True:
            try:
                client, _ = self._listeners[node].accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(node, client), daemon=True).start()

    def _serve(self, node: int, client: socket.socket) -> None:
        with client, client.makefile("rb") as requests, suppress(OSError):
            while head := requests.read(4):
                request = parse_request(requests.read(int.from_bytes(head, "big")))
                # In one piece: TCP would hold a second one back until the first is acknowledged.
                client.sendall(b"".join(self._answer(node, request)))

    def _answer(self, node: int, request: Request) -> Sequence[bytes | memoryview]:
        header = request.header
        if header.api_key == ApiKey.FETCH:
            return self._fetch(node, request)
        if header.api_key == ApiKey.METADATA:
            body = self._metadata()
        elif header.api_key == ApiKey.DESCRIBE_CONFIGS:
            body = self._configs()
        elif header.api_key == ApiKey.LIST_OFFSETS:
            body = self._offsets(request.body)
        else:
            body = api_versions_body([APIS[key] for key in _APIS])
        return [pack_response(header.api_key, header.api_version, header.correlation_id, body)]

    def _metadata(self) -> dict[str, Any]:
        addresses = {node: each.getsockname() for node, each in self._listeners.items()}
        leader, epoch = self.advertised
        partitions = [
            {
                "error_code": 0,
                "partition_index": index,
                "leader_id": leader,
                "leader_epoch": epoch,
                "replica_nodes": list(addresses),
                "isr_nodes": list(addresses),
            }
            for index in range(self.partitions)
        ]
        topic = {
            "error_code": 0,
            "name": "clicks",
            "topic_id": self.topic_id,
            "partitions": partitions,
        }
        if self.topic_errors:
            topic |= {"error_code": int(self.topic_errors.pop(0)), "partitions": []}
        return {
            "brokers": [
                {"node_id": node, "host": host, "port": port}
                for node, (host, port) in addresses.items()
            ],
            "cluster_id": self.cluster_id,
            "controller_id": 1,
            "topics": [topic],
        }

    def _offsets(self, asked: Any) -> dict[str, Any]:
        end = self._batches[-1].last_offset + 1 + self.tail
        if asked.isolation_level and self.last_stable is not None:
            end = self.last_stable
        found = []
        for each in asked.topics[0].partitions:
            self.lookups.append(each.timestamp)
            offset = self.log_start if each.timestamp == _EARLIEST else end
            known = each.partition < self.partitions
            error = ErrorCode.none if known else ErrorCode.unknown_topic_or_partition
            found.append(
                {
                    "partition_index": each.partition,
                    "error_code": int(error),
                    "timestamp": -1,
                    "offset": offset,
                }
            )
        return {"topics": [{"name": "clicks", "partitions": found}]}

    def _configs(self) -> dict[str, Any]:
        denied = ErrorCode.topic_authorization_failed if self.configs is None else ErrorCode.none
        configs = [
            {"name": name, "value": value, "read_only": False, "is_sensitive": False}
            for name, value in (self.configs or {}).items()
        ]
        return {
            "results": [
                {
                    "error_code": int(denied),
                    "resource_type": 2,
                    "resource_name": "clicks",
                    "configs": configs,
                }
            ]
        }

    def _fetch(self, node: int, request: Request) -> Sequence[bytes | memoryview]:
        self.on_fetch(node)
        asked: FetchRequest = request.body
        self.waits_ms.append(asked.max_wait_ms)
        [partition] = asked.topics[0].partitions
        header = request.header
        results = [
            FetchTopicResult(
                "clicks", self.topic_id or UUID(int=0), [self._records(node, partition)]
            )
        ]
        answer = pack_fetch_response(header.api_version, header.correlation_id, results)
        if self.garbled_fetches:
            self.garbled_fetches -= 1
            cut = b"".join(answer)[_SIZE_BYTES:_GARBLED_BYTES]
            return [len(cut).to_bytes(_SIZE_BYTES, "big"), cut]
        return answer

    def _records(self, node: int, asked: FetchPartition) -> FetchPartitionResult[memoryview]:
        error = self._refusal(node, asked.current_leader_epoch)
        if error is not None:
            self.refused.append(error)
            return FetchPartitionResult(0, int(error))
        end = self._batches[-1].last_offset + 1 + self.tail
        found = next(
            (each for each in self._batches if each.last_offset >= asked.fetch_offset), None
        )
        if self.silent_fetches:
            self.silent_fetches -= 1
            found = None
        if found is None:
            return FetchPartitionResult(0, 0, end, end, 0)
        return FetchPartitionResult(0, 0, end, end, 0, len(found.data), found.data)

    def _refusal(self, node: int, epoch: int) -> ErrorCode | None:
        if node != self.leader:
            return ErrorCode.not_leader_or_follower
        if epoch == _NO_EPOCH:
            return None
        if epoch < self.epoch:
            return ErrorCode.fenced_leader_epoch
        return ErrorCode.unknown_leader_epoch if epoch > self.epoch else None

    def stop(self, node: int) -> None:
        """Stop listening on a node. Its open connections stay."""
        with suppress(OSError):
            self._listeners[node].shutdown(socket.SHUT_RDWR)
        self._listeners[node].close()

    def __enter__(self) -> "MovingCluster":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for node in self._listeners:
            self.stop(node)
