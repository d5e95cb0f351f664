"""Which Apache Flume the tests and benchmarks run against, and its jars."""

from testkit.peer.maven import Jars, cache_folder, fetch_jars, find_jars
from testkit.peer.peer import PeerMissing

FLUME_VERSION = "1.11.0"

# The node with its Avro and Thrift parts, the file channel, and what the benchmarks compare.
COORDINATES = (
    f"org.apache.flume:flume-ng-node:{FLUME_VERSION}",
    f"org.apache.flume:flume-ng-sdk:{FLUME_VERSION}",
    f"org.apache.flume.flume-ng-channels:flume-file-channel:{FLUME_VERSION}",
    f"org.apache.flume.flume-ng-sinks:flume-ng-kafka-sink:{FLUME_VERSION}",
    f"org.apache.flume.flume-ng-sources:flume-taildir-source:{FLUME_VERSION}",
    "org.apache.logging.log4j:log4j-slf4j-impl:2.18.0",
)


def flume_jars() -> Jars:
    """The jars that the set-up fetched. Never downloads.

    Raises:
        PeerMissing: when the set-up did not run.
    """
    jars = find_jars(cache_folder() / f"flume-{FLUME_VERSION}")
    if jars is None:
        raise PeerMissing(f"Apache Flume {FLUME_VERSION} is not fetched: run tools/setup-peers")
    return jars


def fetch_flume_jars() -> Jars:
    """Download what `flume_jars` finds (about 50 MB, once). `tools/setup-peers` calls this."""
    return fetch_jars(COORDINATES, cache_folder() / f"flume-{FLUME_VERSION}")
