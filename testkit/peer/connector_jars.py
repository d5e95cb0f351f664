"""Spark's own Kafka connector, which the tests and benchmarks hold against ours."""

from headrace.spark.connector import connector_coordinate, connector_folder
from testkit.peer.jar_set import JarSet, Selection

# The first choice is the connector of the installed Spark. Where Maven Central, or what stands in
# for it, does not have that version, these jars are known to work together on Spark 4.3
# (tests/driver/test_connector.py).
CONNECTOR_JARS = JarSet(
    name="Spark's Kafka connector",
    folder=connector_folder,
    selections=(
        Selection((connector_coordinate(),)),
        Selection(
            (
                "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
                "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.1.0-preview1",
                "org.apache.kafka:kafka-clients:3.9.2",
                "org.apache.commons:commons-pool2:2.13.1",
            ),
            transitive=False,
        ),
    ),
    about_mb=16,
)
