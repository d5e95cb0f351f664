"""Which MirrorMaker 2 client the tests run. Its other jars are Kafka's own (`kafka_jars`)."""

from testkit.peer.jar_set import JarSet, Selection
from testkit.peer.maven import cache_folder

# Maven Central has no 4.2.1 of it.
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
