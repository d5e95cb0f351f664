"""Exactly-once batch writes whose rows wait in files on the driver's machine."""

import re
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from headrace.spark.data_source import HeadraceDataSource
from headrace.spark.sink import task as sink_task
from headrace.spark.sink.column import SinkColumns
from headrace.spark.sink.commit import commit_outputs
from headrace.spark.sink.option import SinkOptions, read_sink_options
from headrace.spark.sink.sink import BatchSink
from headrace.spark.sink.staging_folder import StagingFile, StagingFolder, StagingLost, WriteEnded
from headrace.spark.sink.task import SinkTask
from headrace.spark.sink.task_output import TaskOutput
from headrace.testing.quick_settings import QUICK_SETTINGS
from testkit.peer.transactional import read_to_end
from testkit.process.broker_process import BrokerProcess

PARTITIONS = (0, 1, 2)
SCHEMA = StructType([StructField("value", BinaryType()), StructField("partition", IntegerType())])


class Site:
    """A topic, a staging folder and the sink between them, as a task and the driver use it."""

    def __init__(self, broker: BrokerProcess, topic: str, folder: StagingFolder) -> None:
        self.address, self.topic, self.folder = broker.address, topic, folder
        self.options: SinkOptions = read_sink_options(
            {"kafka.bootstrap.servers": broker.address, "topic": topic}, streaming=True
        )
        admin = AdminClient({"bootstrap.servers": broker.address})
        admin.create_topics([NewTopic(topic, len(PARTITIONS), 1)])[topic].result(60)

    def task(self, values: list[bytes], rows_at_once: int) -> TaskOutput:
        """A task whose rows go to all partitions in turn."""
        places = [number % len(PARTITIONS) for number in range(len(values))]
        columns = {"value": pa.array(values), "partition": pa.array(places, pa.int32())}
        task = SinkTask(
            self.options,
            SinkColumns(SCHEMA, self.topic),
            f"waiting-{self.topic}",
            carry_up_to_bytes=0,
            folder=self.folder,
        )
        return task.run(iter(pa.table(columns).to_batches(rows_at_once)))

    def commit(self, *outputs: TaskOutput) -> bool:
        name = f"sink-{self.topic}"
        return commit_outputs(
            self.options,
            outputs,
            sink_id=name,
            staging_topic=f"waiting-{self.topic}",
            batch_id=None,
        )

    def visible(self) -> list[list[bytes]]:
        return [read_to_end(self.address, self.topic, [each]) for each in PARTITIONS]


@pytest.fixture
def site(
    broker: BrokerProcess, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Site:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    folder = StagingFolder.create()
    assert folder is not None
    return Site(broker, topic, folder)


VALUES = [b"%04d" % number * 2_500 for number in range(2_000)]
IN_ORDER = [VALUES[partition :: len(PARTITIONS)] for partition in PARTITIONS]


def test_rows_wait_in_a_file_and_are_visible_once_committed(site: Site) -> None:
    output = site.task(VALUES, 500)
    before = site.visible()

    assert output.in_file is not None
    assert (output.in_topic, output.carried, output.record_count) == ([], [], 2_000)
    assert before == [[], [], []]
    assert site.commit(output)
    assert site.visible() == IN_ORDER


def test_a_full_disk_continues_in_the_staging_topic_in_order(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, calls = StagingFile.write, []

    def write_twice(file: StagingFile, batches: object) -> None:
        calls.append(batches)
        if len(calls) > 2:
            raise OSError(28, "No space left on device")
        write(file, batches)  # type: ignore[arg-type]

    monkeypatch.setattr(StagingFile, "write", write_twice)
    output = site.task(VALUES, 500)

    assert len(calls) == 3
    assert output.in_file is not None
    assert output.in_file.batches
    assert output.in_topic
    assert site.commit(output)
    assert site.visible() == IN_ORDER


def test_nothing_is_visible_when_a_file_is_gone(site: Site) -> None:
    first, second = site.task([b"a"], 1), site.task([b"b"], 1)
    assert second.in_file is not None
    Path(second.in_file.path).unlink()

    with pytest.raises(StagingLost):
        site.commit(first, second)

    assert site.visible() == [[], [], []]
    assert site.commit(first)
    assert site.visible() == [[b"a"], [], []]


@pytest.mark.parametrize("winner", ["in a file", "carried"])
def test_a_lost_attempt_elsewhere_leaves_no_staging_topic(
    site: Site, winner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {
        "kafka.bootstrap.servers": site.address,
        "topic": site.topic,
        "guarantee": "exactly-once",
        "sinkIdPrefix": f"stage-{site.topic}",
    }
    sink = BatchSink(options, SCHEMA)
    rows = pa.table({"value": pa.array([b"a"]), "partition": pa.array([0], pa.int32())})

    def attempt(folder: StagingFolder | None, carry_up_to_bytes: int) -> TaskOutput:
        columns = SinkColumns(SCHEMA, site.topic)
        topic = sink._staging_topic
        task = SinkTask(
            *(sink._options, columns, topic), carry_up_to_bytes=carry_up_to_bytes, folder=folder
        )
        return task.run(iter(rows.to_batches()))

    admin = AdminClient({"bootstrap.servers": site.address})
    lost = attempt(None, 0)  # on a machine without the folder, which is lost with its output
    assert lost.in_topic
    assert sink._staging_topic in admin.list_topics(timeout=60).topics

    monkeypatch.setattr(sink_task, "task_attempt", lambda: 1)
    output = attempt(sink._folder, 0 if winner == "in a file" else 1_000)
    assert (output.in_file is not None, bool(output.carried)) == (
        winner == "in a file",
        winner == "carried",
    )
    assert not output.in_topic
    sink.commit([output])

    assert site.visible() == [[b"a"], [], []]
    assert sink._staging_topic not in admin.list_topics(timeout=60).topics


def test_a_task_that_outlives_the_abort_makes_no_staging_topic(site: Site) -> None:
    options = {
        "kafka.bootstrap.servers": site.address,
        "topic": site.topic,
        "guarantee": "exactly-once",
        "sinkIdPrefix": f"stage-{site.topic}",
    }
    sink = BatchSink(options, SCHEMA)
    rows = pa.table({"value": pa.array([b"a"]), "partition": pa.array([0], pa.int32())})
    task = SinkTask(
        sink._options,
        SinkColumns(SCHEMA, site.topic),
        sink._staging_topic,
        carry_up_to_bytes=0,
        folder=sink._folder,
    )

    sink.abort([])
    with pytest.raises(WriteEnded):
        task.run(iter(rows.to_batches()))

    topics = AdminClient({"bootstrap.servers": site.address}).list_topics(timeout=60).topics
    assert sink._staging_topic not in topics


def test_a_large_write_with_a_login_leaves_no_file_and_no_topic(
    spark: SparkSession, topic: str, tmp_path: Path
) -> None:
    spark.dataSource.register(HeadraceDataSource)
    users = tmp_path / "users"
    users.write_text("writer=correct-horse\n")
    users.chmod(0o600)
    settings = {
        **QUICK_SETTINGS,
        "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "headrace.sasl.plain.users.file": str(users),
    }
    count = 30_000
    with BrokerProcess(tmp_path / "broker", settings) as broker:
        found = re.search(r"listens on (\S+), (\S+)", broker.log)
        assert found is not None
        options = {
            "kafka.bootstrap.servers": found[2],
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "PLAIN",
            "kafka.sasl.username": "writer",
            "kafka.sasl.password": "correct-horse",
            "topic": topic,
            "guarantee": "exactly-once",
            "sinkIdPrefix": f"stage-{topic}",
        }
        admin = AdminClient({"bootstrap.servers": found[1]})
        admin.create_topics([NewTopic(topic, len(PARTITIONS), 1)])[topic].result(60)
        rows = spark.range(0, count, 1, 2).selectExpr("lpad(string(id), 100, '0') AS value")
        broken = rows.selectExpr(
            f"IF(value LIKE '%{count - 1}', raise_error('no'), value) AS value"
        )

        with pytest.raises(PySparkException):
            broken.write.format("headrace").mode("append").options(**options).save()
        rows.write.format("headrace").mode("append").options(**options).save()

        values = Counter(int(value) for value in read_to_end(found[1], topic, PARTITIONS))
        topics = admin.list_topics(timeout=60).topics
    assert values == Counter(range(count))
    assert not [name for name in topics if name.startswith("stage-")]
    local = Path(str(spark.conf.get("spark.local.dir")))
    assert not list(local.glob("**/headrace-sink-*"))
