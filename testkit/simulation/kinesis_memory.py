"""The operations of the Kinesis gateway on a memory instead of a cluster: fast, and repeatable.

Changes are settled at once; records lie in lists. What the real store and log add (leases, threads,
failures) is not here: the tests with real brokers have it.
"""

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from headrace.client.error import ClientError
from headrace.client.read.offset_lookup import EARLIEST, LATEST
from headrace.client.settings import ClientSettings
from headrace.gateway.kinesis.identity.seal import Seal
from headrace.gateway.kinesis.record.permit import Permit
from headrace.gateway.kinesis.record.placed_rows import PlacedRows
from headrace.gateway.kinesis.record.row import Row, ShardLog, StoredRow
from headrace.gateway.kinesis.record.shard_reader import ReadRows
from headrace.gateway.kinesis.service import KinesisService
from headrace.gateway.kinesis.settings import KinesisSettings
from headrace.gateway.kinesis.store.channel_store import ChannelStore
from headrace.gateway.kinesis.store.instance_watch import InstanceWatch
from headrace.gateway.kinesis.store.lease import lease_clock
from headrace.gateway.kinesis.store.stream_store import DocumentStep
from headrace.gateway.kinesis.store.stream_topic import read_document, write_document
from headrace.gateway.kinesis.stream.shard import Shard
from headrace.gateway.kinesis.stream.stream_state import StreamState, StreamStatus
from headrace.gateway.kinesis.wait import Wait
from headrace.model.ids import TopicPartition

Step = Callable[[StreamState | None], StreamState | None]


class MemoryLog:
    """Partitions, as writer and reader of the service."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, list[StoredRow]] = {}

    def put(
        self,
        place: ShardLog,
        rows: Sequence[Row],
        most_bytes: int | None = None,
        permit: Permit | None = None,
    ) -> "list[Future[PlacedRows]]":
        log = self.partitions.setdefault(place.partition, [])
        placed: Future[PlacedRows] = Future()
        now_ms = time.time_ns() // 1_000_000
        placed.set_result(PlacedRows(len(log), now_ms))
        log += [StoredRow(len(log) + at, now_ms, row.key, row.value) for at, row in enumerate(rows)]
        return [placed] * len(rows)

    def read(
        self,
        partition: TopicPartition,
        offset: int,
        last: int | None,
        most_rows: int,
        wait_ms: int = 0,
        most_bytes: int = 0,
    ) -> ReadRows:
        log = self.partitions.get(partition, [])
        rows = log[offset : len(log) if last is None else last][:most_rows]
        return ReadRows(rows, offset + len(rows), len(log))

    def offset_at(self, partition: TopicPartition, time_ms: int) -> int:
        log = self.partitions.get(partition, [])
        if time_ms in (LATEST, EARLIEST):
            return len(log) if time_ms == LATEST else 0
        return next((each.offset for each in log if each.time_ms >= time_ms), len(log))

    def offsets_at(
        self, partitions: Sequence[TopicPartition], time_ms: int
    ) -> dict[TopicPartition, int]:
        return {each: self.offset_at(each, time_ms) for each in partitions}


class MemoryStore:
    """Streams, as store and keeper of the service: every change is finished when it returns."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self.streams: Mapping[str, StreamState] = {}
        self.documents: Mapping[str, dict[str, Any]] = {}
        self.seal = Seal(b"s" * 32)
        self.tail = self
        self.instance = "00"
        self.instances = InstanceWatch(lease_clock())

    @property
    def confirmed_at(self) -> float:
        return lease_clock()

    def want(self, at: float) -> None:
        """A view in memory is always fresh."""

    def listen(self, listener: Callable[[], object]) -> None:
        """Nothing changes by itself."""

    def refresh(self, seconds: float) -> bool:
        return True

    def prepare_to_vouch(self) -> None:
        """A view in memory is always fresh."""

    def vouched_shard(self, stream: StreamState, number: int, at: float) -> Shard:
        shard = self.streams[stream.name].shard(number)
        if shard is None:
            raise ClientError("no such shard")
        return shard

    def vouching(self, stream: StreamState, number: int, at: float) -> Generator[Wait, None, Shard]:
        yield from ()
        return self.vouched_shard(stream, number, at)

    def change(self, name: str, step: Step) -> StreamState | None:
        changed = step(self.streams.get(name))
        settled = None if changed is None else self._settled(changed)
        left = {key: each for key, each in self.streams.items() if key != name}
        self.streams = left if settled is None else {**left, name: settled}
        return changed

    def change_document(self, name: str, step: DocumentStep) -> None:
        changed = step(self.documents.get(name))
        left = {key: each for key, each in self.documents.items() if key != name}
        # Through JSON, as a real record goes.
        self.documents = left if changed is None else {**left, name: _copied(changed)}

    def _settled(self, stream: StreamState) -> StreamState | None:
        if stream.status is StreamStatus.DELETING:
            for each in [key for key in self._log.partitions if key.topic == stream.name]:
                del self._log.partitions[each]
            return None
        if stream.pending is not None:
            ends = {
                number: self._log.offset_at(self._partition(stream, number), LATEST)
                for number in stream.pending.closing
            }
            stream = stream.resharded(ends, time.time_ns() // 1_000_000)
        # Through JSON, as a real record goes.
        return StreamState.from_json(stream.changed(status=StreamStatus.ACTIVE).as_json())

    def _partition(self, stream: StreamState, number: int) -> TopicPartition:
        shard = stream.shard(number)
        assert shard is not None
        return TopicPartition(stream.name, shard.partition)


def _copied(document: dict[str, Any]) -> dict[str, Any]:
    return read_document(write_document(document))


class _NoPlainTopics:
    """A cluster without topics of Kafka's clients."""

    def matches(self, name: str) -> bool:
        return False

    def exists(self, name: str) -> bool:
        return False

    def streams(self) -> dict[str, StreamState]:
        return {}


def memory_service(**options: Any) -> KinesisService:
    """Return a service that needs no broker. Not to be started."""
    client = ClientSettings.of({"bootstrap.servers": "127.0.0.1:1"})
    service = KinesisService(KinesisSettings(client=client, **options))
    log = MemoryLog()
    parts: dict[str, Any] = {"writer": log, "reader": log, "plain": _NoPlainTopics()}
    parts["store"] = parts["keeper"] = MemoryStore(log)
    parts["channels"] = ChannelStore(parts["store"])
    for name, part in parts.items():
        setattr(service, name, part)
    return service
