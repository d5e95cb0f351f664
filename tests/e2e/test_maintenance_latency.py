"""Maintenance of 1,000 partitions beside a client: the client does not wait for any of it."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.wire.api import ApiKey
from headrace.wire.error_code import ErrorCode
from headrace.wire.produce_request import ProducePartition, ProduceRequest, ProduceTopic
from testkit.process.broker_process import BrokerProcess
from testkit.process.wire_client import WireClient
from testkit.sample.batch import sample_batch

PARTITIONS = 1000
PROBES = 300
LIMIT_MS = 20.0
ROUNDS = 5

# Everything that a broker does beside serving, all the time.
BUSY = {
    "log.retention.check.interval.ms": "20",
    "log.flush.scheduler.interval.ms": "20",
    "log.flush.offset.checkpoint.interval.ms": "20",
    "replica.high.watermark.checkpoint.interval.ms": "20",
    "log.cleaner.backoff.ms": "20",
    "offsets.retention.check.interval.ms": "20",
}
# Half of the partitions are compacted. Each round of retention finds segments to roll and delete.
CONFIGS = {
    "old": {
        "retention.ms": "50",
        "segment.ms": "20",
        "flush.ms": "20",
        "file.delete.delay.ms": "0",
    },
    "keyed": {"cleanup.policy": "compact", "segment.ms": "20", "min.cleanable.dirty.ratio": "0"},
    "probe": {},
}


def create_topics(client: WireClient) -> None:
    topics = [
        {
            "name": name,
            "num_partitions": 1 if name == "probe" else PARTITIONS // 2,
            "replication_factor": 1,
            "configs": [{"name": key, "value": value} for key, value in configs.items()],
        }
        for name, configs in CONFIGS.items()
    ]
    answer = client.ask(ApiKey.CREATE_TOPICS, 6, {"topics": topics, "timeout": 60_000})
    assert {each.error_code for each in answer.topics} == {ErrorCode.none}


def write_everywhere(client: WireClient) -> None:
    """Append a batch to each partition, so that maintenance finds work in it."""
    batch = memoryview(sample_batch(b"x" * 100, timestamp_ms=int(time.time() * 1000)))
    for name in ("old", "keyed"):
        everywhere = [ProducePartition(index, batch) for index in range(PARTITIONS // 2)]
        request = ProduceRequest(None, 1, 60_000, [ProduceTopic(name, None, everywhere)])
        client.receive(ApiKey.PRODUCE, 9, client.send_produce(9, request))


def p99_ms(client: WireClient, between: Callable[[int], object]) -> float:
    """Return the 99th percentile of one-record produces with acks=all, one after the other."""
    latencies = []
    for number in range(PROBES):
        batch = sample_batch(b"x" * 100, timestamp_ms=int(time.time() * 1000))
        start = time.perf_counter()
        client.produce("probe", batch)
        latencies.append((time.perf_counter() - start) * 1000)
        between(number)
        time.sleep(0.002)  # the rate of a client, not a wait
    return sorted(latencies)[int(PROBES * 0.99) - 1]


def measured(data: Path, settings: dict[str, str]) -> float:
    with BrokerProcess(data, settings) as broker, WireClient(broker.address) as client:
        create_topics(client)
        write_everywhere(client)
        with WireClient(broker.address) as other:
            return p99_ms(client, lambda number: number % 100 or write_everywhere(other))


def test_all_maintenance_of_1000_partitions_costs_a_client_no_20_ms(tmp_path: Path) -> None:
    """On a machine that is busy with other work both runs are slow: then the quiet one counts. The
    other work may come during the second run alone, but not in every round."""
    seen = []
    for number in range(ROUNDS):
        quiet_ms = measured(tmp_path / f"quiet-{number}", {})
        busy_ms = measured(tmp_path / f"busy-{number}", BUSY)
        seen.append(f"p99 {quiet_ms:.1f} ms without and {busy_ms:.1f} ms with maintenance")
        if busy_ms < max(LIMIT_MS, 3 * quiet_ms):
            return
    pytest.fail("\n".join(seen))
