"""Kafka Connect's file connectors. The worker's jars are Kafka's own (`kafka_jars`)."""

from testkit.peer.jar_set import JarSet, Selection
from testkit.peer.kafka_jars import KAFKA_VERSION
from testkit.peer.maven import cache_folder

CONNECT_FILE_JARS = JarSet(
    name=f"Kafka Connect's file connectors {KAFKA_VERSION}",
    folder=lambda: cache_folder() / f"connect-file-{KAFKA_VERSION}",
    # Where Maven Central, or what stands in for it, lacks this version, a neighbour does: the
    # connectors only use Connect's API.
    selections=tuple(
        Selection((f"org.apache.kafka:connect-file:{version}",), transitive=False)
        for version in (KAFKA_VERSION, "4.2.0", "4.3.1", "4.1.1")
    ),
    about_mb=1,
)
