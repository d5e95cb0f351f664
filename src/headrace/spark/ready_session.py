"""A Spark session in which `format("headrace")` works; `headrace.spark.session` starts it."""

import os
import sys
from collections.abc import Mapping
from typing import Any

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from headrace.model.error import HeadraceError, InvalidArgument
from headrace.process.java import find_java
from headrace.spark.connector import connector_config, connector_folder
from headrace.spark.data_source import HeadraceDataSource
from headrace.spark.quick_home import quick_home

# Present below spark-submit, which has chosen the master by then.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
_CONNECTOR_CLASS = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_PYTHON = "spark.pyspark.python"
_STACK = "-Xss16m"
# What the source is better with than without, unless the user says otherwise.
_BETTER_WITH = {"spark.sql.python.filterPushdown.enabled": "true"}


class SparkUnavailable(HeadraceError):
    """Spark did not start; the message says what it needs."""


def session(
    app_name: str = "headrace",
    master: str | None = None,
    *,
    realtime: bool = False,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """The Spark session of this process, started if there is none.

    Args:
        app_name: what Spark's pages call the program.
        master: any master of Spark's (`spark://host:7077`, `yarn`, `k8s://…`); if none is given,
            what `spark-submit` says, or else `local[*]`.
        realtime: add Spark's own Kafka connector, whose source and sink `kafka` can run with
            `trigger(realTime="5 seconds")`. Its jars come from `connector_folder()` or else from
            Maven Central, when Spark starts.
        config: settings of Spark's; they go before those that are made here.

    Raises:
        JavaMissing: there is no Java, or an old one.
        SparkUnavailable: Spark's Java process ended while it started.
        InvalidArgument: a session runs already, with another master or without the connector.

    Example:
        spark = headrace.spark.session("page counts", config={"spark.sql.shuffle.partitions": "4"})
        clicks = spark.read.format("headrace").option("subscribe", "clicks")
    """
    wanted = _BETTER_WITH | {key: str(value) for key, value in (config or {}).items()}
    if master is not None:
        wanted["spark.master"] = master
    running = SparkSession.getActiveSession()
    if running is None:
        running = _start(app_name, wanted, realtime)
    else:
        _adapt(running, wanted, realtime)
    # Spark finds it by itself, but then it calls executors' Python what the driver's is called.
    running.dataSource.register(HeadraceDataSource)
    return running


def _start(app_name: str, wanted: dict[str, str], realtime: bool) -> SparkSession:
    find_java()
    settings = dict(wanted)
    # The processes in which Spark looks for data sources must find what this process finds.
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if _SUBMITTED not in os.environ:
        settings.setdefault("spark.master", "local[*]")
    if settings.get("spark.master", "").startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        home = None if _PYTHON in settings else quick_home()
        if home is not None:
            os.environ["SPARK_HOME"] = str(home)
        # A laptop's own name may lead to an address at which it cannot be reached.
        settings.setdefault("spark.driver.host", "127.0.0.1")
        settings.setdefault("spark.driver.bindAddress", "127.0.0.1")
    settings["spark.driver.extraJavaOptions"] = _java_options(settings)
    if realtime:
        settings |= connector_config(settings)
    try:
        started = SparkSession.builder.appName(app_name).config(map=dict(settings)).getOrCreate()
    except PySparkRuntimeError as error:
        raise SparkUnavailable(_what_it_needs(settings)) from error
    if realtime and not _has_connector(started):
        # The Java process outlives a stopped session, with the jars that it was started with.
        started.stop()
        raise InvalidArgument(
            "Spark has run in this process before, without its Kafka connector: start a session"
            " with realtime=True in a new process"
        )
    return started


def _java_options(settings: Mapping[str, str]) -> str:
    """Those of the user, and a stack that is deep enough: Spark matches the message of a batch that
    was interrupted with a regular expression that overflows Java's default."""
    given = settings.get("spark.driver.extraJavaOptions", "")
    return given if "-Xss" in given else f"{given} {_STACK}".strip()


def _what_it_needs(settings: Mapping[str, str]) -> str:
    packages = settings.get("spark.jars.packages")
    if packages:
        return (
            f"Spark did not start: if its output says that it could not fetch {packages}, put the"
            f" jars into {connector_folder()} or name them in config['spark.jars']"
        )
    return (
        "Spark did not start, and its output says why; it needs Java 17 or newer with the module"
        " jdk.incubator.vector (on Debian: openjdk-17-jre-headless)"
    )


def _adapt(running: SparkSession, wanted: Mapping[str, str], realtime: bool) -> None:
    """What a running session can still change; a second one cannot exist beside it."""
    master = running.conf.get("spark.master")
    if wanted.get("spark.master", master) != master:
        raise InvalidArgument(
            f"a Spark session runs already, on {master}: stop() it before you start one on"
            f" {wanted['spark.master']}"
        )
    if realtime and not _has_connector(running):
        raise InvalidArgument(
            "a Spark session runs already, without Spark's Kafka connector: start a session with"
            " realtime=True in a new process"
        )
    for key, value in wanted.items():
        if running.conf.isModifiable(key):
            running.conf.set(key, value)


def _has_connector(running: SparkSession) -> bool:
    java: Any = running.sparkContext._jvm
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.getResource(_CONNECTOR_CLASS.replace(".", "/") + ".class") is not None
