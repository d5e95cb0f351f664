"""Which Apache Kafka the tests and benchmarks run against."""

from testkit.peer.jar_set import JarSet, Selection
from testkit.peer.maven import cache_folder

KAFKA_VERSION = "4.2.1"

# kafka_2.13 is the broker and DumpLogSegments, kafka-tools the other command line tools. The last
# one sends slf4j to the log4j that the tools bring; its version is that log4j's.
KAFKA_JARS = JarSet(
    name=f"Apache Kafka {KAFKA_VERSION}",
    folder=lambda: cache_folder() / f"kafka-{KAFKA_VERSION}",
    selections=(
        Selection(
            (
                f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
                f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
                "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
            )
        ),
    ),
    about_mb=65,
)
