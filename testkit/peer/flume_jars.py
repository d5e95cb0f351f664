"""Which Apache Flume the tests and benchmarks run against."""

from testkit.peer.jar_set import JarSet, Selection
from testkit.peer.maven import cache_folder

FLUME_VERSION = "1.11.0"

# The node with its Avro and Thrift parts, the file channel, and what the benchmarks compare.
FLUME_JARS = JarSet(
    name=f"Apache Flume {FLUME_VERSION}",
    folder=lambda: cache_folder() / f"flume-{FLUME_VERSION}",
    selections=(
        Selection(
            (
                f"org.apache.flume:flume-ng-node:{FLUME_VERSION}",
                f"org.apache.flume:flume-ng-sdk:{FLUME_VERSION}",
                f"org.apache.flume.flume-ng-channels:flume-file-channel:{FLUME_VERSION}",
                f"org.apache.flume.flume-ng-sinks:flume-ng-kafka-sink:{FLUME_VERSION}",
                f"org.apache.flume.flume-ng-sources:flume-taildir-source:{FLUME_VERSION}",
                "org.apache.logging.log4j:log4j-slf4j-impl:2.18.0",
            )
        ),
    ),
    about_mb=57,
)
