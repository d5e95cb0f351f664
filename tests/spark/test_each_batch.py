"""`each_batch` in a real Spark session: batches that are repeated, new checkpoints."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession

from headrace.spark.sink.each_batch import each_batch
from testkit.peer.transactional import read_to_end
from testkit.process.broker_process import BrokerProcess

Run = Callable[[str], None]


@pytest.fixture
def run(spark: SparkSession, broker: BrokerProcess, topic: str, tmp_path: Path) -> Run:
    """Runs a stream of one batch, which is written twice, from a checkpoint of this name."""
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    (tmp_path / "lines").mkdir()
    (tmp_path / "lines" / "1.txt").write_text("a\nb\n")
    write = each_batch(
        f"sink-of-{topic}", {"kafka.bootstrap.servers": broker.address, "topic": topic}
    )

    def twice(rows: DataFrame, batch_id: int) -> None:
        write(rows, batch_id)
        write(rows, batch_id)

    def run(checkpoint: str) -> None:
        rows = spark.readStream.text(str(tmp_path / "lines"))
        writer = rows.writeStream.foreachBatch(twice).trigger(availableNow=True)
        writer.option("checkpointLocation", str(tmp_path / checkpoint)).start().awaitTermination()

    return run


def test_a_batch_that_comes_again_adds_nothing(run: Run, broker: BrokerProcess, topic: str) -> None:
    run("first")
    assert sorted(read_to_end(broker.address, topic, [0])) == [b"a", b"b"]


def test_a_new_checkpoint_is_a_new_sink_though_its_name_is_the_old_one(
    run: Run, broker: BrokerProcess, topic: str
) -> None:
    run("first")
    run("second")
    assert sorted(read_to_end(broker.address, topic, [0])) == [b"a", b"a", b"b", b"b"]
