"""Starts a Spark session in which Headrace's formats work: `headrace.spark.session`."""

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
from headrace.spark.kinesis.data_source import KinesisDataSource
from headrace.spark.quick_home import quick_home
from headrace.spark.socket_folder import socket_settings, sockets_were_used

# Set by spark-submit, which has chosen the master by then.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
_CONNECTOR_CLASS = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
# Only spark-submit reads these settings by itself.
_PYTHON = "spark.pyspark.python"
_DRIVER_PYTHON = "spark.pyspark.driver.python"
_STACK = "-Xss16m"
# If `config` has any of these settings, none is added.
_SOCKETS = "spark.python.unix.domain.socket."
# Settings that speed up the source, unless the user sets them.
_DEFAULTS = {"spark.sql.python.filterPushdown.enabled": "true"}
# Which options Spark masks in plans, beside those named password, secret or token: Spark's default,
# and ours, which has the other options that hold a login.
_MASK = "spark.sql.redaction.options.regex"
_SPARKS_MASK = "(?i)url"
_OUR_MASK = r"(?i)url|user\.info|jaas|keystore\.key"


class SparkUnavailable(HeadraceError):
    """Spark did not start. The message says what it needs."""


def session(
    app_name: str = "headrace",
    master: str | None = None,
    *,
    realtime: bool = False,
    config: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the Spark session of this process; start one if there is none.

    Args:
        app_name: the name of the program on Spark's pages.
        master: any master of Spark's (`spark://host:7077`, `yarn`, `k8s://…`). By default that of
            `spark-submit`, or else `local[*]`.
        realtime: add Spark's own Kafka connector, whose source and sink `kafka` can run with
            `trigger(realTime="5 seconds")`. Its jars come from `connector_folder()` or else from
            Maven Central, when Spark starts.
        config: settings of Spark; they take precedence over those of this function.

    Raises:
        JavaMissing: there is no Java, or an old one.
        SparkUnavailable: Spark's Java process ended while it started.
        InvalidArgument: a session runs already, with another master or without the connector.

    Example:
        spark = headrace.spark.session("page counts", config={"spark.sql.shuffle.partitions": "4"})
        clicks = spark.read.format("headrace").option("subscribe", "clicks")
    """
    settings = _DEFAULTS | {key: str(value) for key, value in (config or {}).items()}
    if master is not None:
        settings["spark.master"] = master
    running = SparkSession.getActiveSession()
    if running is None:
        running = _start(app_name, settings, realtime)
    else:
        _apply(running, settings, realtime)
    if running.conf.get(_MASK, _SPARKS_MASK) == _SPARKS_MASK:
        running.conf.set(_MASK, _OUR_MASK)
    # Spark finds the sources by itself too, but then starts executors' Python by the driver's path.
    running.dataSource.register(HeadraceDataSource)
    running.dataSource.register(KinesisDataSource)
    return running


def _start(app_name: str, settings: dict[str, str], realtime: bool) -> SparkSession:
    find_java()
    settings = dict(settings)
    # The processes in which Spark looks for data sources must have the packages of this process.
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", settings.get(_DRIVER_PYTHON, sys.executable))
    if _SUBMITTED not in os.environ:
        settings.setdefault("spark.master", "local[*]")
    if settings.get("spark.master", "").startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", settings.get(_PYTHON, sys.executable))
        home = None if _PYTHON in settings else quick_home()
        if home is not None:
            os.environ["SPARK_HOME"] = str(home)
        # A laptop's own host name may resolve to an address that cannot be reached.
        settings.setdefault("spark.driver.host", "127.0.0.1")
        settings.setdefault("spark.driver.bindAddress", "127.0.0.1")
        if not any(each.startswith(_SOCKETS) for each in settings):
            settings |= socket_settings()
    else:
        if _PYTHON in settings:
            os.environ.setdefault("PYSPARK_PYTHON", settings[_PYTHON])
        if sockets_were_used():
            # The Java process keeps the settings of an earlier session, on this machine.
            settings.setdefault(f"{_SOCKETS}enabled", "false")
    settings["spark.driver.extraJavaOptions"] = _java_options(settings)
    if realtime:
        settings |= connector_config(settings)
    try:
        started = SparkSession.builder.appName(app_name).config(map=dict(settings)).getOrCreate()
    except PySparkRuntimeError as error:
        raise SparkUnavailable(_what_it_needs(settings)) from error
    if realtime and not _has_connector(started):
        # The Java process outlives a stopped session, and keeps the jars of its start.
        started.stop()
        raise InvalidArgument(
            "Spark has run in this process before, without its Kafka connector: start a session"
            " with realtime=True in a new process"
        )
    return started


def _java_options(settings: Mapping[str, str]) -> str:
    """Return the user's Java options, with a deeper stack: Spark matches the message of an
    interrupted batch with a regular expression that overflows Java's default stack."""
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


def _apply(running: SparkSession, settings: Mapping[str, str], realtime: bool) -> None:
    """Apply settings to a running session; there cannot be a second one beside it.

    Raises:
        InvalidArgument: it has another master, or lacks the connector.
    """
    master = running.conf.get("spark.master")
    if settings.get("spark.master", master) != master:
        raise InvalidArgument(
            f"a Spark session runs already, on {master}: stop() it before you start one on"
            f" {settings['spark.master']}"
        )
    if realtime and not _has_connector(running):
        raise InvalidArgument(
            "a Spark session runs already, without Spark's Kafka connector: start a session with"
            " realtime=True in a new process"
        )
    for key, value in settings.items():
        if running.conf.isModifiable(key):
            running.conf.set(key, value)


def _has_connector(running: SparkSession) -> bool:
    java: Any = running.sparkContext._jvm
    loader = java.java.lang.Thread.currentThread().getContextClassLoader()
    return loader.getResource(_CONNECTOR_CLASS.replace(".", "/") + ".class") is not None
