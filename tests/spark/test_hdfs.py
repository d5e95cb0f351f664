"""Checkpoints and landed files on a real HDFS."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace.flow.error import FlowError
from headrace.flow.execution.state_slots import StateSlots, check_state_slots
from headrace.flow.land import Landing, stray_files
from headrace.flow.samza.checkpoint_start import CheckpointStart
from headrace.flow.storage.file_store import FileStore
from headrace.flow.storage.hadoop_file_store import open_store
from headrace.flow.storage.location import Location
from headrace.flow.storm.sink import TopicSink
from headrace.flow.storm.topology import Topology
from testkit.peer.mini_hdfs import MiniHdfs
from testkit.peer.peer import PeerMissing, require_peer
from testkit.process.broker_process import BrokerProcess
from testkit.sample.topology_fixture import TopologyFixture

NOW = {"availableNow": True}


@pytest.fixture(scope="module")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        with MiniHdfs(tmp_path_factory.mktemp("hdfs")) as running:
            yield f"hdfs://{running.address}"
    except PeerMissing as missing:
        require_peer(str(missing))


@pytest.fixture
def folder(hdfs: str, topic: str) -> Location:
    return Location.of(f"{hdfs}/{topic}")


def files(spark: SparkSession, folder: Location) -> FileStore:
    return open_store(spark, folder, "the folder")


@pytest.mark.timeout(600)
def test_files_are_written_replaced_found_and_removed(
    spark: SparkSession, folder: Location
) -> None:
    store = files(spark, folder)

    assert (store.exists(), store.names("offsets"), store.local) == (False, [], False)
    with pytest.raises(FileNotFoundError):
        store.read("offsets/0")
    store.remove("offsets/0")

    store.write("offsets/0", b"old")
    store.write("offsets/0", b"new \xff")
    store.write("date=1/hour=2/a b.parquet", b"")
    assert store.read("offsets/0") == b"new \xff"
    assert store.names("offsets") == ["0"]
    assert store.find("date=*/hour=*/*.parquet") == ["date=1/hour=2/a b.parquet"]

    store.remove("date=1")
    assert store.names() == ["offsets"]

    start = CheckpointStart({"counts": {0: 7}}, {"kafka.views": {0: 3}})
    start.write(store)
    assert CheckpointStart.read(store) == start

    check_state_slots(store, {"count": StateSlots(0, range(2))})
    with pytest.raises(FlowError, match="2 tasks of count"):
        check_state_slots(store, {"count": StateSlots(0, range(3))})


@pytest.mark.timeout(600)
def test_at_most_once_skips_a_batch_whose_checkpoint_is_there(
    spark: SparkSession,
    folder: Location,
    broker: BrokerProcess,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    stage = TopologyFixture(broker.address, spark, topic, str(folder), outputs=("out",))

    def topology() -> Topology:
        made = Topology(topic, guarantee="at-most-once", dead_letters=None)
        made.spout("lines", stage.lines())
        made.sink("out", TopicSink(stage.topic("out"))).shuffle("lines")
        return made

    stage.feed("a", "b")
    stage.run(topology())
    # As a crash leaves it: the batch has written its records, and Spark has not committed it.
    files(spark, stage.location).remove("commits/0")
    stage.feed("c")
    stage.run(topology())

    assert sorted(each["value"] for each in stage.read("out")) == ["a", "b", "c"]
    assert list(tmp_path.glob("hdfs:*")) == []


@pytest.mark.timeout(600)
def test_a_topic_lands_and_is_tidied(
    spark: SparkSession, folder: Location, broker: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    stage = TopologyFixture(broker.address, spark, topic, tmp_path, outputs=())
    landing = Landing(
        topics=stage.topic("in"), brokers=broker.address, folder=folder.text, format="string"
    )
    stage.feed("one", "two")
    checkpoint = folder.child("_checkpoint").text
    landing.start(spark, checkpoint=checkpoint, trigger=NOW).awaitTermination()
    store = landing.files(spark)
    (landed, *_) = store.find("date=*/hour=*/*.parquet")
    stray = f"{landed.rpartition('/')[0]}/part-crash.parquet"
    store.write(stray, b"left by a crash")

    assert stray_files(store) == [stray]
    rows = spark.read.parquet(folder.text).collect()
    assert sorted(each["value"] for each in rows) == ["one", "two"]


def test_a_file_system_that_spark_lacks_is_named(spark: SparkSession) -> None:
    with pytest.raises(FlowError, match=r"nofs://a/b cannot be used: .*No FileSystem for scheme"):
        files(spark, Location.of("nofs://a/b"))
