"""`headrace.spark.session`, and Spark's own way to the data source."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf

import headrace.spark
from headrace.model.error import InvalidArgument
from headrace.process.java import find_java
from testkit.peer.spark_session import quiet_config


def test_python_workers_run_the_interpreter_of_the_driver(spark: SparkSession) -> None:
    interpreter = udf(lambda _: sys.executable)

    rows = spark.range(1).select(interpreter(col("id"))).collect()

    assert rows[0][0] == sys.executable


def test_a_plain_session_finds_the_data_source_by_itself(spark: SparkSession) -> None:
    plain = spark.newSession()  # what other tests may have registered is not known here

    options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "clicks"}
    columns = plain.read.format("headrace").options(**options).load().columns

    assert columns[:4] == ["key", "value", "topic", "partition"]


def test_a_second_master_beside_a_running_session_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidArgument, match=r"runs already, on local\[2\]: stop\(\) it"):
        headrace.spark.session(master="spark://somewhere:7077")


def test_a_running_session_cannot_get_the_connector(spark: SparkSession) -> None:
    with pytest.raises(InvalidArgument, match="without Spark's Kafka connector"):
        headrace.spark.session(realtime=True)


def test_a_running_session_takes_settings_that_can_change(spark: SparkSession) -> None:
    zone, pushdown = "spark.sql.session.timeZone", "spark.sql.python.filterPushdown.enabled"
    before = {key: spark.conf.get(key) for key in (zone, pushdown)}
    try:
        running = headrace.spark.session(config={zone: "Asia/Tokyo"})

        assert running.conf.get(zone) == "Asia/Tokyo"
        assert running.conf.get(pushdown) == "true"
        assert running.sparkContext is spark.sparkContext
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def test_plans_mask_logins_unless_the_user_chooses_what_is_masked(spark: SparkSession) -> None:
    mask = "spark.sql.redaction.options.regex"
    before = spark.conf.get(mask)
    login = {"schema.registry.basic.auth.user.info": "me:hidden", "kafka.group.id": "shown"}
    try:
        spark.conf.unset(mask)
        headrace.spark.session()
        masked = redacted(spark, login)
        headrace.spark.session(config={mask: "(?i)group"})

        assert masked == {
            "schema.registry.basic.auth.user.info": "*********(redacted)",
            "kafka.group.id": "shown",
        }
        assert spark.conf.get(mask) == "(?i)group"
    finally:
        spark.conf.set(mask, before)


def redacted(spark: SparkSession, options: dict[str, str]) -> dict[str, str]:
    """Return options as Spark shows them in plans."""
    conf = spark._jsparkSession.sessionState().conf()
    jvm = spark._jvm
    assert jvm is not None
    found = conf.redactOptions(jvm.PythonUtils.toScalaMap(options))
    return {name: found.apply(name) for name in options}


PLAIN_PROGRAM = """
import sys
import headrace.spark
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf

builder = SparkSession.builder.master("local[1]")
for key, value in CONFIG.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "clicks"}
columns = spark.read.format("headrace").options(**options).load().columns
prefix = spark.range(1).select(udf(lambda _: sys.prefix)(col("id"))).collect()[0][0]
print("columns:", *columns)
print("workers run this environment:", prefix == sys.prefix)
"""


def test_a_plain_session_works_in_an_environment_that_was_not_activated(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"CONFIG = {quiet_config(tmp_path)!r}\n{PLAIN_PROGRAM}")
    (tmp_path / "local").mkdir()
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_HOME", "VIRTUAL_ENV")
    }
    environment["JAVA_HOME"] = str(find_java().path.resolve().parent.parent)
    environment["PATH"] = "/usr/bin:/bin"
    environment["SPARK_LOCAL_IP"] = "127.0.0.1"

    done = subprocess.run(
        [sys.executable, str(program)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )

    assert "columns: key value topic" in done.stdout, done.stderr[-4000:]
    assert "workers run this environment: True" in done.stdout
