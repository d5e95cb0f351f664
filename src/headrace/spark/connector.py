"""Finds Spark's own Kafka connector (format `kafka`), which real-time mode needs.

It is a jar for one version of Spark. Jars in `connector_folder()` are used; without them Spark
downloads those of its own version from Maven Central when it starts.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import pyspark

_ARTIFACT = "spark-sql-kafka-0-10"


def connector_coordinate() -> str:
    """Return the Maven coordinate of the connector for the installed Spark.

    >>> connector_coordinate().split(":")[:2]
    ['org.apache.spark', 'spark-sql-kafka-0-10_2.13']
    """
    return f"org.apache.spark:{_ARTIFACT}_2.13:{pyspark.__version__}"


def connector_folder() -> Path:
    """Return the folder for jars of the connector: one per version of Spark.

    `$XDG_CACHE_HOME/headrace/spark-<version>-kafka`, by default below `~/.cache`.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    cache = Path(base) if base else Path.home() / ".cache"
    return cache / "headrace" / f"spark-{pyspark.__version__}-kafka"


def connector_config(config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that add the connector to a session; none if `config` has it already.

    Jars that Spark itself has are left out: two copies of a class would conflict.
    """
    named = config.get("spark.jars", "") + config.get("spark.jars.packages", "")
    if _ARTIFACT in named:
        return {}
    own = {path.name for path in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    jars = [path for path in sorted(connector_folder().glob("*.jar")) if path.name not in own]
    if any(path.name.startswith(_ARTIFACT) for path in jars):
        return _extended(config, "spark.jars", [str(path) for path in jars])
    return _extended(config, "spark.jars.packages", [connector_coordinate()])


def _extended(config: Mapping[str, str], key: str, more: list[str]) -> dict[str, str]:
    present = [config[key]] if config.get(key) else []
    return {key: ",".join(present + more)}
