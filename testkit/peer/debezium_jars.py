"""Debezium's connector for PostgreSQL. The worker's jars are Kafka's own (`kafka_jars`)."""

from testkit.peer.jar_set import JarSet, Selection
from testkit.peer.maven import cache_folder

DEBEZIUM_VERSION = "3.6.1.Final"
_PARTS = (
    "api",
    "config",
    "connect-plugins",
    "connector-common",
    "connector-postgres",
    "openlineage-api",
    "util",
)

# Not transitive: the rest is Kafka's clients and Connect's API, which the worker has, in its own
# version. Maven Central has no complete set of some other versions, 3.6.2 among them.
DEBEZIUM_JARS = JarSet(
    name=f"Debezium for PostgreSQL {DEBEZIUM_VERSION}",
    folder=lambda: cache_folder() / f"debezium-postgres-{DEBEZIUM_VERSION}",
    selections=tuple(
        Selection(
            (
                *(f"io.debezium:debezium-{part}:{version}" for part in _PARTS),
                "org.postgresql:postgresql:42.7.11",
                "com.google.protobuf:protobuf-java:3.25.5",
                "com.datadoghq:sketches-java:0.8.2",
                "com.fasterxml.jackson.datatype:jackson-datatype-jsr310:2.21.2",
            ),
            transitive=False,
        )
        for version in (DEBEZIUM_VERSION, "3.6.0.Final")
    ),
    about_mb=6,
)
