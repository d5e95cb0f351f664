"""A real disk that is full, and then is not."""

import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
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
            refused_until = time.monotonic() + 0.5
            while time.monotonic() < refused_until:
                assert produce() == ErrorCode.kafka_storage_error
            with urllib.request.urlopen(f"{broker.admin_url}/healthz") as health:
                assert health.status == 200

            disk.make_room()

            answer = client.produce("t", sample_batch(b"after"))
            assert (answer.error_code, answer.base_offset) == (ErrorCode.none, accepted)
