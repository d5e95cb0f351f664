"""Spark's own Kafka connector, which the tests and benchmarks hold against ours."""

from headrace.spark.connector import connector_coordinate, connector_folder
from testkit.peer.maven import Jars, fetch_jars, find_jars
from testkit.peer.peer import PeerMissing

# Jars that are known to work together on Spark 4.3 (tests/driver/test_connector.py): for where
# Maven Central, or what stands in for it, does not have the connector of the very same version.
KNOWN_TO_WORK = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)


def connector_jars() -> Jars:
    """The jars that the set-up fetched. Never downloads.

    Raises:
        PeerMissing: when the set-up did not run.
    """
    jars = find_jars(connector_folder())
    if jars is None:
        raise PeerMissing("Spark's Kafka connector is not fetched: run tools/setup-peers")
    return jars


def fetch_connector_jars() -> Jars:
    """Download what `connector_jars` finds (about 10 MB, once). `tools/setup-peers` calls this."""
    try:
        return fetch_jars([connector_coordinate()], connector_folder())
    except PeerMissing:
        return fetch_jars(KNOWN_TO_WORK, connector_folder(), transitive=False)
