"""Which Kafka Streams the tests run. Its other jars are Kafka's own (`kafka_jars`)."""

from testkit.peer.jar_set import JarSet, Selection
from testkit.peer.kafka_jars import KAFKA_VERSION
from testkit.peer.maven import cache_folder

# Not transitive: the tests keep their state in memory, and RocksDB is sixty times as large.
STREAMS_JARS = JarSet(
    name=f"Kafka Streams {KAFKA_VERSION}",
    folder=lambda: cache_folder() / f"kafka-streams-{KAFKA_VERSION}",
    selections=(Selection((f"org.apache.kafka:kafka-streams:{KAFKA_VERSION}",), transitive=False),),
    about_mb=2,
)
