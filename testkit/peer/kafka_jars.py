"""Which Apache Kafka the tests and benchmarks run against, and its jars."""

from testkit.peer.maven import Jars, cache_folder, fetch_jars, find_jars
from testkit.peer.peer import PeerMissing

KAFKA_VERSION = "4.2.1"

# kafka_2.13 is the broker and DumpLogSegments, kafka-tools the other command line tools. The last
# one sends slf4j to the log4j that the tools bring; its version is that log4j's.
COORDINATES = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
    f"org.apache.kafka:kafka-tools:{KAFKA_VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.25.4",
)


def kafka_jars() -> Jars:
    """The jars that the set-up fetched. Never downloads.

    Raises:
        PeerMissing: when the set-up did not run.
    """
    jars = find_jars(cache_folder() / f"kafka-{KAFKA_VERSION}")
    if jars is None:
        raise PeerMissing(f"Apache Kafka {KAFKA_VERSION} is not fetched: run tools/setup-peers")
    return jars


def fetch_kafka_jars() -> Jars:
    """Download what `kafka_jars` finds (about 55 MB, once). `tools/setup-peers` calls this."""
    return fetch_jars(COORDINATES, cache_folder() / f"kafka-{KAFKA_VERSION}")
