"""Apache Kafka reads what our compaction leaves: rebuilt, emptied and stamped batches."""

from pathlib import Path

import pytest

from headrace.log.compaction.compaction_scheduler import CompactionScheduler
from headrace.log.compaction.compactor import Compactor
from headrace.log.log_directory import LogDirectory
from headrace.model.clock import ManualClock
from headrace.model.ids import TopicPartition
from headrace.model.topic_config import LogConfig
from headrace.records.compression import Codec
from testkit.peer.kafka_tool import KafkaTools
from testkit.peer.log_dump import LogDump, dump_log
from testkit.sample.keyed_batch import KeyedRecord
from testkit.simulation.compaction_model import CompactionModel

pytestmark = pytest.mark.interop

PARTITION = TopicPartition("accounts", 0)
CONFIG = LogConfig(
    cleanup_policy=("compact",),
    delete_retention_ms=1000,
    index_interval_bytes=128,
    min_cleanable_dirty_ratio=0.0,
)


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, CompactionModel]:
    """A log with a bit of everything, after two rounds; closed."""
    path = tmp_path_factory.mktemp("compacted")
    clock = ManualClock()
    directory = LogDirectory.open(path, configs=lambda topic: CONFIG, clock=clock)
    model = CompactionModel(directory.create(PARTITION))
    scheduler = CompactionScheduler(directory.storage, path, lambda: [model.log])
    compactor = Compactor(clock)
    for turn in range(2):
        for number in range(60):
            value = None if number % 9 == 4 else b"value %d of turn %d" % (number, turn)
            records = [
                KeyedRecord(b"key-%d" % (number % 17), value, clock.wall_ms() + number),
                KeyedRecord(b"only-%d" % number, b"once", clock.wall_ms()),
            ]
            model.append(records, codec=Codec(number % 5), producer_id=number % 3)
        for commit in (True, False):
            model.append([KeyedRecord(b"key-1", b"%d" % commit)], producer_id=7, transactional=True)
            model.end_transaction(7, commit=commit)
        model.log.roll()
        assert scheduler.run_once(compactor) is not None
        clock.advance(1500)
    directory.close()
    return path / str(PARTITION), model


@pytest.fixture(scope="module")
def dump(compacted: tuple[Path, CompactionModel], kafka_tools: KafkaTools) -> LogDump:
    return dump_log(kafka_tools, [compacted[0]])


def test_kafka_has_no_complaint(dump: LogDump, compacted: tuple[Path, CompactionModel]) -> None:
    assert dump.complaints_of(compacted[0], compacted=True) == []


def test_kafka_sees_the_delete_horizons(
    dump: LogDump, compacted: tuple[Path, CompactionModel]
) -> None:
    horizons = [batch["deleteHorizonMs"] for batch in dump.batches_of(compacted[0])]

    assert any(horizon.startswith("OptionalLong[") for horizon in horizons)


def test_kafka_sees_the_newest_record_of_each_key(
    dump: LogDump, compacted: tuple[Path, CompactionModel]
) -> None:
    folder, model = compacted
    found = {
        record.key.encode(): None if record.value_size < 0 else (record.value or "").encode()
        for record in dump.records_of(folder)
        if record.marker is None and record.key is not None
    }

    alive = {key: value for key, value in found.items() if value is not None}
    assert alive == {key: value for key, value in model.dictionary().items() if value is not None}
