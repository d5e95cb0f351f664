"""The session of the tests, and `headrace.spark.session`."""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, udf


def test_python_workers_run_the_interpreter_of_the_driver(spark: SparkSession) -> None:
    interpreter = udf(lambda _: sys.executable)

    rows = spark.range(1).select(interpreter(col("id"))).collect()

    assert rows[0][0] == sys.executable
