"""What a YARN of one process needs beside the jars of Hadoop's test cluster."""

from testkit.peer.hadoop_jars import HADOOP_VERSION
from testkit.peer.jar_set import JarSet, Selection
from testkit.peer.maven import cache_folder

# The certificates of the ResourceManager's proxy; Hadoop leaves these jars out of its mini cluster.
_BOUNCY_CASTLE = "1.82"

YARN_JARS = JarSet(
    name=f"Apache Hadoop YARN {HADOOP_VERSION}",
    folder=lambda: cache_folder() / f"yarn-{HADOOP_VERSION}",
    selections=(
        Selection(
            tuple(
                f"org.bouncycastle:{artifact}-jdk18on:{_BOUNCY_CASTLE}"
                for artifact in ("bcprov", "bcpkix", "bcutil")
            ),
            transitive=False,
        ),
    ),
    about_mb=10,
)
