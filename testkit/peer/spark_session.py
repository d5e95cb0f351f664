"""The Spark session of a test run, in the one Java process of this Python process.

A Python process has one Java process and one Spark context for its whole life, so tests share the
session; a test that needs another kind of session runs a driver of its own (`run_driver`).
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.core.context import SparkContext
from pyspark.sql import SparkSession

from headrace.spark.quick_home import quick_home
from headrace.spark.socket_folder import socket_settings
from testkit.peer.java import find_java
from testkit.peer.spark_archive import spark_java_options

_JAVA_STOP_SECONDS = 30.0


def quiet_config(folder: Path, java_options: Sequence[str] | None = None) -> dict[str, str]:
    """Return settings for tests: loopback, no web pages, few tasks, files below `folder` only.

    Args:
        java_options: of the driver; None: those with which it starts quickest.
    """
    options = spark_java_options() if java_options is None else java_options
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": " ".join([*options, f"-Djava.io.tmpdir={folder}"]),
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        # A worker that crashes in C code writes a traceback.
        "spark.python.worker.faulthandler.enabled": "true",
    }


def spark_environment() -> dict[str, str]:
    """Return the variables that Spark reads before any setting: its address and its Python."""
    home = quick_home()
    return {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        **({} if home is None else {"SPARK_HOME": str(home)}),
    }


@contextmanager
def local_spark(folder: Path) -> Iterator[SparkSession]:
    """Run a session on two threads of this process; at the end stop its Java process too.

    Raises:
        PeerMissing: when there is no Java that Spark can use.
    """
    find_java()
    (folder / "local").mkdir(parents=True, exist_ok=True)
    os.environ.update(spark_environment())
    builder = SparkSession.builder.master("local[2]").appName("headrace tests")
    session = builder.config(map=quiet_config(folder) | socket_settings()).getOrCreate()
    try:
        yield session
    finally:
        session.stop()
        stop_java()


def stop_java(seconds: float = _JAVA_STOP_SECONDS) -> None:
    """Stop the Java process that PySpark keeps; call it after `session.stop()`."""
    gateway = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = None
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()  # the Java process ends when its standard input does
        gateway.proc.wait(seconds)
