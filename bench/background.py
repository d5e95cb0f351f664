"""How long background work holds up requests: one-record produces while a big topic is compacted,
and while retention deletes segments. The broker runs in its own process with stock settings."""

import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from bench.row import Row
from testkit.process.broker_process import BrokerProcess
from testkit.process.wire_client import WireClient
from testkit.sample.batch import sample_batch

SIZE_BYTES = 1 << 30
VALUE_BYTES = 1000
KEYS = 100_000
_QUIET_SECONDS = 5.0
_SEGMENT_BYTES = 64 << 20


def run() -> list[Row]:
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    settings = {"log.cleaner.backoff.ms": "200", "log.retention.check.interval.ms": "500"}
    try:
        with BrokerProcess(folder, settings) as broker:
            return _measure(broker)
    finally:
        shutil.rmtree(folder)


def _measure(broker: BrokerProcess) -> list[Row]:
    admin = AdminClient({"bootstrap.servers": broker.address})
    segments = {"segment.bytes": str(_SEGMENT_BYTES)}
    admin.create_topics([NewTopic("big", 1, 1, config=segments), NewTopic("probe", 1, 1)])
    _fill(broker.address)
    rows = _rows("nothing else", _probe(broker.address, _for_seconds(_QUIET_SECONDS)))
    _alter(admin, "cleanup.policy", "compact")
    compacting = _probe(broker.address, lambda: _stored_bytes(broker) > SIZE_BYTES // 4)
    rows += _rows("a compaction of 1 GiB", compacting)
    _alter(admin, "cleanup.policy", "delete")
    _alter(admin, "retention.bytes", "1")
    deleting = _probe(broker.address, _for_seconds(_QUIET_SECONDS))
    return rows + _rows("retention", deleting)


def _fill(address: str) -> None:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 20, "batch.size": 1 << 20})
    value = bytes(VALUE_BYTES)
    for number in range(SIZE_BYTES // VALUE_BYTES):
        while True:
            try:
                producer.produce("big", value, b"%d" % (number % KEYS))
                break
            except BufferError:
                producer.poll(0.05)
    producer.flush(120)


def _alter(admin: AdminClient, key: str, value: str) -> None:
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "big", incremental_configs=[entry])
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)


def _probe(address: str, goes_on: Callable[[], bool]) -> list[float]:
    """Milliseconds of one-record produces, one after the other, for as long as `goes_on` says."""
    over = threading.Event()

    def watch() -> None:
        while goes_on():
            time.sleep(0.2)
        over.set()

    threading.Thread(target=watch, daemon=True).start()
    batch, latencies = sample_batch(b"x" * 100), []
    with WireClient(address) as client:
        while not over.is_set():
            start = time.perf_counter()
            client.produce("probe", batch, acks=1)
            latencies.append((time.perf_counter() - start) * 1000)
    return sorted(latencies)


def _for_seconds(seconds: float) -> Callable[[], bool]:
    end = time.monotonic() + seconds
    return lambda: time.monotonic() < end


def _stored_bytes(broker: BrokerProcess) -> int:
    folder = broker.data / "big-0"
    return sum(path.stat().st_size for path in folder.glob("*.log") if path.exists())


def _rows(during: str, latencies: list[float]) -> list[Row]:
    def at(share: float) -> float:
        return latencies[min(len(latencies) - 1, int(len(latencies) * share))]

    return [
        Row(name=f"one-record produce during {during}, p50", ours=at(0.5), unit="ms"),
        Row(name=f"one-record produce during {during}, p99", ours=at(0.99), unit="ms"),
        Row(name=f"one-record produce during {during}, p99.9", ours=at(0.999), unit="ms"),
        Row(name=f"one-record produce during {during}, longest", ours=latencies[-1], unit="ms"),
    ]
