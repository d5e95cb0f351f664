"""The Spark session of the benchmarks: as a user's, but for its place and its noise."""

import compileall
import os
from pathlib import Path
from typing import Any

import headrace
from headrace.spark.ready_session import session
from testkit.peer.connector_jars import CONNECTOR_JARS
from testkit.peer.spark_session import spark_environment


def bench_session(folder: Path) -> Any:
    """With Spark's own Kafka connector, to measure us against.

    Spark starts a Python process for every stream. The package is compiled first, as pip compiles
    it: where Python may not write what it compiles, each process would do it again.
    """
    for folder_of_package in headrace.__path__:
        compileall.compile_dir(folder_of_package, quiet=2)
    os.environ.update(spark_environment())
    CONNECTOR_JARS.find()
    return session(
        "bench",
        master="local[2]",
        realtime=True,
        config={
            "spark.driver.memory": "2g",
            "spark.local.dir": str(folder / "spark"),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
        },
    )
