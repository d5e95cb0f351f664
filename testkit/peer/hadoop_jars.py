"""Which Apache Hadoop the tests run against, and its jars."""

from testkit.peer.maven import Jars, cache_folder, fetch_jars, find_jars
from testkit.peer.peer import PeerMissing

# The client's jars that PySpark 4.3 brings are of the same version.
HADOOP_VERSION = "3.5.0"

# The cluster in one process that Hadoop's own tests use, and what it needs of their tools.
COORDINATES = (
    f"org.apache.hadoop:hadoop-client-minicluster:{HADOOP_VERSION}",
    f"org.apache.hadoop:hadoop-client-api:{HADOOP_VERSION}",
    f"org.apache.hadoop:hadoop-client-runtime:{HADOOP_VERSION}",
    "org.junit.jupiter:junit-jupiter-api:5.10.2",
    "org.mockito:mockito-core:4.11.0",
)


def hadoop_jars() -> Jars:
    """The jars that the set-up fetched. Never downloads.

    Raises:
        PeerMissing: when the set-up did not run.
    """
    jars = find_jars(cache_folder() / f"hadoop-{HADOOP_VERSION}")
    if jars is None:
        raise PeerMissing(f"Apache Hadoop {HADOOP_VERSION} is not fetched: run tools/setup-peers")
    return jars


def fetch_hadoop_jars() -> Jars:
    """Download what `hadoop_jars` finds (about 110 MB, once). `tools/setup-peers` calls this."""
    return fetch_jars(COORDINATES, cache_folder() / f"hadoop-{HADOOP_VERSION}")
