"""`decode` sees in Apache Kafka's segments what Kafka's consumer was served from them."""

from pathlib import Path
from typing import Any

import pytest

from headrace.log.file_pool import FilePool
from headrace.log.filesystem import Disk
from headrace.log.index.index_cache import IndexCache
from headrace.log.index.transaction_index import TransactionIndex
from headrace.records.batch import iter_batches
from headrace.records.compression import Codec
from headrace.records.decode import Layout, decode
from testkit.sample.topic import CODECS, SAMPLE_TOPICS, seen_rows

pytestmark = pytest.mark.interop

KafkaDirectory = Any


def segments(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


@pytest.mark.parametrize("layout", ["binary", "view"])
@pytest.mark.parametrize("topic", SAMPLE_TOPICS)
def test_every_record_is_the_same(
    kafka_directories: dict[str, KafkaDirectory], topic: str, layout: Layout
) -> None:
    directory = kafka_directories["killed"]
    seen = directory.topics[topic]

    decoded = decode(segments(directory.partition(topic)), start_offset=seen.start, layout=layout)

    assert tuple(seen_rows(decoded.columns)) == seen.uncommitted
    assert decoded.next_offset == seen.high_watermark


def test_aborted_transactions_are_left_out(
    kafka_directories: dict[str, KafkaDirectory],
) -> None:
    directory = kafka_directories["clean"]
    folder = directory.partition("transactions")
    seen = directory.topics["transactions"]
    aborted = [
        (entry.producer_id, entry.first_offset)
        for path in sorted(folder.glob("*.txnindex"))
        for entry in TransactionIndex(path, FilePool(Disk()), IndexCache()).entries()
    ]

    decoded = decode(segments(folder), end_offset=seen.last_stable, aborted=aborted)

    assert tuple(seen_rows(decoded.columns)) == seen.committed
    assert len(seen.committed) < len(seen.uncommitted)


@pytest.mark.parametrize("codec", CODECS[1:])
def test_the_broker_compressed_what_it_was_told_to(
    kafka_directories: dict[str, KafkaDirectory], codec: str
) -> None:
    data = segments(kafka_directories["clean"].partition(f"broker-{codec}"))

    assert {Codec(batch.compression).name.lower() for batch in iter_batches(data)} == {codec}
