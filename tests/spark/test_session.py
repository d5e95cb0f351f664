"""`headrace.spark.session`, and Spark's own way to the data source."""

import sys

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf

import headrace.spark
from headrace.model.error import InvalidArgument


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
