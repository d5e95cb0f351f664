"""Which MirrorMaker 2 the tests and benchmarks run. Its other jars are Kafka's (`kafka_jars`)."""

from testkit.peer.jar_set import JarSet, Selection
from testkit.peer.kafka_jars import KAFKA_VERSION
from testkit.peer.maven import cache_folder

# Maven Central has no 4.2.1 of the client.
MIRROR_VERSION = "4.2.0"

# RemoteClusterUtils and MirrorClient, as programs at the target of a mirror use them.
MIRROR_CLIENT_JARS = JarSet(
    name=f"MirrorMaker 2's client {MIRROR_VERSION}",
    folder=lambda: cache_folder() / f"connect-mirror-client-{MIRROR_VERSION}",
    selections=(
        Selection((f"org.apache.kafka:connect-mirror-client:{MIRROR_VERSION}",), transitive=False),
    ),
    about_mb=1,
)

# The connectors, for a worker of Kafka Connect.
MIRROR_MAKER_JARS = JarSet(
    name=f"MirrorMaker 2 {KAFKA_VERSION}",
    folder=lambda: cache_folder() / f"connect-mirror-{KAFKA_VERSION}",
    selections=tuple(
        Selection(
            (
                f"org.apache.kafka:connect-mirror:{version}",
                f"org.apache.kafka:connect-mirror-client:{MIRROR_VERSION}",
            ),
            transitive=False,
        )
        for version in (KAFKA_VERSION, MIRROR_VERSION)
    ),
    about_mb=1,
)
