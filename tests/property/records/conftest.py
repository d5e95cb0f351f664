"""Two codecs of other projects behind one interface: those of kafka-python and aiokafka."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import aiokafka.record.default_records
import aiokafka.record.memory_records
import pyarrow as pa
import pytest

from headrace.records.column import HEADERS

with warnings.catch_warnings():
    # Its import reads resources in a way that Python 3.11 warns of.
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka.codec
    import kafka.record.default_records
    import kafka.record.memory_records

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


class Record(NamedTuple):
    """What every codec knows of a record."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


@dataclass(frozen=True)
class Oracle:
    """One foreign codec."""

    name: str
    builder: Any
    reader: Any

    def build(self, records: Sequence[Record], codec: str = "none", **producer: int) -> bytes:
        """One batch around all records, from offset 0 on."""
        builder = self.builder(
            magic=2,
            compression_type=CODECS.index(codec),
            is_transactional=producer.get("transactional", 0),
            producer_id=producer.get("producer_id", -1),
            producer_epoch=producer.get("producer_epoch", -1),
            base_sequence=producer.get("base_sequence", -1),
            batch_size=2**31 - 1,
        )
        for offset, record in enumerate(records):
            added = builder.append(
                offset, record.timestamp, record.key, record.value, record.headers
            )
            assert added is not None
        return bytes(builder.build())

    def read(self, data: bytes) -> list[tuple[int, Record]]:
        """(offset, record) of all batches, whose CRCs must hold."""
        batches = self.reader(data)
        found = []
        while batches.has_next():
            batch = batches.next_batch()
            assert batch.validate_crc()
            for record in batch:
                headers = [(key, value) for key, value in record.headers]
                found.append(
                    (record.offset, Record(record.timestamp, record.key, record.value, headers))
                )
        return found


ORACLES = [
    Oracle(
        "kafka-python",
        kafka.record.default_records.DefaultRecordBatchBuilder,
        kafka.record.memory_records.MemoryRecords,
    ),
    Oracle(
        "aiokafka",
        aiokafka.record.default_records.DefaultRecordBatchBuilder,
        aiokafka.record.memory_records.MemoryRecords,
    ),
]


def pairs() -> list[tuple[Oracle, str]]:
    """Each oracle with each codec it can do: kafka-python needs a library of its own for most."""
    kafka_python, aio = ORACLES
    have = {
        "none": True,
        "gzip": kafka.codec.has_gzip(),
        "snappy": kafka.codec.has_snappy(),
        "lz4": kafka.codec.has_lz4(),
        "zstd": kafka.codec.has_zstd(),
    }
    return [(aio, codec) for codec in CODECS] + [
        (kafka_python, codec) for codec in CODECS if have[codec]
    ]


@pytest.fixture(scope="session", params=ORACLES, ids=lambda oracle: oracle.name)
def oracle(request: pytest.FixtureRequest) -> Oracle:
    return request.param


@pytest.fixture(scope="session", params=pairs(), ids=lambda pair: f"{pair[0].name}-{pair[1]}")
def oracle_and_codec(request: pytest.FixtureRequest) -> tuple[Oracle, str]:
    return request.param


class Columns:
    """Records as Arrow columns, and back."""

    @staticmethod
    def of(records: Sequence[Record]) -> pa.RecordBatch:
        headers = [[{"key": k, "value": v} for k, v in record.headers] for record in records]
        return pa.record_batch(
            {
                "timestamp": pa.array([record.timestamp for record in records], pa.int64()),
                "key": pa.array([record.key for record in records], pa.binary()),
                "value": pa.array([record.value for record in records], pa.binary()),
                "headers": pa.array(headers, HEADERS),
            }
        )

    @staticmethod
    def rows(columns: pa.RecordBatch) -> list[tuple[int, Record]]:
        times = columns["timestamp"].view(pa.int64()).to_pylist()
        headers = [[(h["key"], h["value"]) for h in row] for row in columns["headers"].to_pylist()]
        fields = zip(
            times, columns["key"].to_pylist(), columns["value"].to_pylist(), headers, strict=True
        )
        return [
            (offset, Record(*row))
            for offset, row in zip(columns["offset"].to_pylist(), fields, strict=True)
        ]


@pytest.fixture(scope="session")
def columns() -> type[Columns]:
    return Columns


@pytest.fixture(scope="session")
def make_record() -> type[Record]:
    return Record
