"""The Spark session of a test run: in this process's one Java machine, small and quiet.

A Python process has one Java machine and one Spark context for its whole life, so tests share the
session; a test that needs another kind of session runs a driver of its own (`SparkDriver`).
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.core.context import SparkContext
from pyspark.sql import SparkSession

from headrace.spark.quick_home import quick_home
from testkit.peer.java import SHORT_RUN, find_java

_JAVA_STOP_SECONDS = 30.0


def quiet_config(folder: Path) -> dict[str, str]:
    """Settings for sessions of tests: loopback, no pages, few tasks, files below `folder` only."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": " ".join([*SHORT_RUN, f"-Djava.io.tmpdir={folder}"]),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        # A worker that crashes in C code says where.
        "spark.python.worker.faulthandler.enabled": "true",
    }


def spark_environment() -> dict[str, str]:
    """Variables that Spark reads before any setting: its address, and the Python of its workers."""
    home = quick_home()
    return {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        **({} if home is None else {"SPARK_HOME": str(home)}),
    }


@contextmanager
def local_spark(folder: Path) -> Iterator[SparkSession]:
    """A session on two threads of this process; at the end its Java machine is gone too.

    Raises:
        PeerMissing: when there is no Java that Spark can use.
    """
    find_java()
    (folder / "local").mkdir(parents=True, exist_ok=True)
    os.environ.update(spark_environment())
    builder = SparkSession.builder.master("local[2]").appName("headrace tests")
    session = builder.config(map=dict(quiet_config(folder))).getOrCreate()
    try:
        yield session
    finally:
        session.stop()
        stop_java()


def stop_java() -> None:
    """End the Java machine that PySpark would keep until Python ends; after `session.stop()`."""
    gateway = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()  # the machine ends when its standard input does
        gateway.proc.wait(_JAVA_STOP_SECONDS)
