"""Many large records at once: all are put, and the gateway's memory stays within bounds."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from testkit.process.broker_process import BrokerProcess
from testkit.process.kinesis_client import create_stream, kinesis_client, read_stream
from testkit.process.kinesis_process import KinesisProcess

KEY_BYTES = 16
MOST_RSS_BYTES = 512 << 20


@pytest.fixture(scope="module")
def gateway(
    tmp_path_factory: pytest.TempPathFactory, broker: BrokerProcess
) -> Iterator[KinesisProcess]:
    folder = tmp_path_factory.mktemp("gateway")
    with KinesisProcess(Path(folder), broker.address, "--no-limits") as process:
        yield process


@pytest.mark.parametrize(("count", "size_kib"), [(100, 256), (50, 1024)])
def test_large_records_at_once_take_bounded_memory(
    gateway: KinesisProcess, topic: str, count: int, size_kib: int
) -> None:
    client = kinesis_client(gateway.url)
    create_stream(client, topic, 2)
    data = bytes((size_kib << 10) - KEY_BYTES)  # a record's limit includes its key

    def put(number: int) -> str:
        key = f"{number:0{KEY_BYTES}d}"
        placed: str = client.put_record(StreamName=topic, Data=data, PartitionKey=key)["ShardId"]
        return placed

    with ThreadPoolExecutor(count) as pool:
        assert len(list(pool.map(put, range(count)))) == count

    keys = [each["PartitionKey"] for each in read_stream(client, topic) if each["Data"] == data]
    assert sorted(keys) == [f"{number:0{KEY_BYTES}d}" for number in range(count)]
    assert gateway.usage().peak_rss_bytes < MOST_RSS_BYTES
