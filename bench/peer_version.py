"""The versions of the peers that are not Python packages, as they are installed here."""

import json

from headrace.spark.connector import connector_folder
from testkit.peer.debezium_jars import DEBEZIUM_VERSION
from testkit.peer.flume_jars import FLUME_VERSION
from testkit.peer.kafka_jars import KAFKA_VERSION
from testkit.peer.kinesis_mock import PROGRAM

_CONNECTOR_JAR = "spark-sql-kafka-0-10_2.13-"


def peer_versions() -> dict[str, str]:
    """Return the version by the peer's name; a peer that is not installed is left out."""
    found = {
        "Apache Kafka": KAFKA_VERSION,
        "Apache Flume": FLUME_VERSION,
        "Debezium": DEBEZIUM_VERSION,
    }
    for jar in sorted(connector_folder().glob(f"{_CONNECTOR_JAR}*.jar")):
        found["Spark's Kafka connector"] = jar.stem.removeprefix(_CONNECTOR_JAR)
    package = PROGRAM.with_name("package.json")
    if package.is_file():
        found["kinesis-mock"] = str(json.loads(package.read_text())["version"])
    return found
