"""A real disk that is full, and then is not."""

import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing.readiness import wait_until
from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.fetch_request import FetchPartition, FetchRequest, FetchTopic
from testkit.fault.small_disk import SmallDisk
from testkit.peer.peer import PeerMissing, require_peer
from testkit.process.broker_process import BrokerProcess
from testkit.process.wire_client import WireClient
from testkit.sample.batch import sample_batch

# Every kind of write outside of appends, many times while the disk is full.
OFTEN = {
    "log.retention.check.interval.ms": "20",
    "log.flush.scheduler.interval.ms": "20",
    "log.flush.offset.checkpoint.interval.ms": "20",
    "replica.high.watermark.checkpoint.interval.ms": "20",
}


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path / "broker" / "data", size_bytes=16 << 20)
    try:
        disk.mount()
    except PeerMissing as missing:
        require_peer(str(missing))
    yield disk
    disk.unmount()


def test_a_full_disk_is_survived_and_writes_go_on(disk: SmallDisk, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "broker", OFTEN) as broker:
        assert broker.data == disk.folder
        with WireClient(broker.address) as client:
            configs = [{"name": "segment.ms", "value": "50"}, {"name": "flush.ms", "value": "20"}]
            topic = {
                "name": "t",
                "num_partitions": 1,
                "replication_factor": 1,
                "configs": configs,
            }
            client.ask(ApiKey.CREATE_TOPICS, 6, {"topics": [topic], "timeout": 10_000})

            def produce() -> int:
                now_ms = int(time.time() * 1000)
                return int(
                    client.produce("t", sample_batch(b"x" * 900, timestamp_ms=now_ms)).error_code
                )

            accepted = sum(produce() == ErrorCode.none for _ in range(50))
            disk.fill()
            # Appends go on as long as the last page of a file has room.
            codes = [produce() for _ in range(50)]
            assert set(codes) <= {ErrorCode.none, ErrorCode.kafka_storage_error}
            assert codes[-1] == ErrorCode.kafka_storage_error
            accepted += codes.count(ErrorCode.none)

            def refused_for_long() -> bool:
                nonlocal accepted
                refused_until = time.monotonic() + 0.5
                while time.monotonic() < refused_until:
                    code = produce()
                    if code == ErrorCode.none:  # the page of a checkpoint that was replaced
                        accepted += 1
                        return False
                    assert code == ErrorCode.kafka_storage_error
                return True

            wait_until(refused_for_long, what="refusals alone")
            with urllib.request.urlopen(f"{broker.admin_url}/healthz") as health:
                assert health.status == 200

            disk.make_room()

            answer = client.produce("t", sample_batch(b"after"))
            assert (answer.error_code, answer.base_offset) == (ErrorCode.none, accepted)


def test_a_broker_starts_on_a_full_disk_and_serves_reads(disk: SmallDisk, tmp_path: Path) -> None:
    """Nothing there can be removed: no log waits for its deletion."""
    broker = BrokerProcess(tmp_path / "broker", OFTEN)
    with broker:
        with WireClient(broker.address) as client:
            topic = {"name": "t", "num_partitions": 2, "replication_factor": 1, "configs": []}
            client.ask(ApiKey.CREATE_TOPICS, 6, {"topics": [topic], "timeout": 10_000})
            for _ in range(20):
                assert client.produce("t", _now(b"x" * 900)).error_code == ErrorCode.none
            idempotent = _now(b"y", producer_id=7, producer_epoch=0, sequence=0)
            assert client.produce("t", idempotent, 1).error_code == ErrorCode.none
        disk.fill()
        broker.kill()

        broker.start()

        with WireClient(broker.address) as client:
            assert [_end(client, each) for each in (0, 1)] == [20, 1]
            assert len(client.fetch(12, _WHOLE).topics[0].partitions[0].records) > 20 * 900
            while client.produce("t", _now(b"x" * 900)).error_code == ErrorCode.none:
                pass  # the last page of the file has room

            disk.make_room()

            def accepted() -> bool:
                return bool(client.produce("t", _now(b"after")).error_code == 0)

            wait_until(accepted, what="a record taken again", timeout_seconds=90)


_WHOLE = FetchRequest(
    max_wait_ms=100,
    min_bytes=1,
    max_bytes=1 << 20,
    isolation_level=0,
    topics=[FetchTopic("t", None, [FetchPartition(0, -1, 0, -1, -1, 1 << 20)])],
)


def _end(client: WireClient, partition: int) -> int:
    asked = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": -1}
    body = {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"name": "t", "partitions": [asked]}],
    }
    return int(client.ask(ApiKey.LIST_OFFSETS, 6, body).topics[0].partitions[0].offset)


def _now(value: bytes, **producer: int) -> bytes:
    """Return a batch that retention keeps."""
    return sample_batch(value, timestamp_ms=int(time.time() * 1000), **producer)  # type: ignore[arg-type]
