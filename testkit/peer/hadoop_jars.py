"""Which Apache Hadoop the tests run against."""

from testkit.peer.jar_set import JarSet, Selection
from testkit.peer.maven import cache_folder

# The client's jars that PySpark 4.3 brings are of the same version.
HADOOP_VERSION = "3.5.0"

# The cluster in one process that Hadoop's own tests use, and what it needs of their tools.
HADOOP_JARS = JarSet(
    name=f"Apache Hadoop {HADOOP_VERSION}",
    folder=lambda: cache_folder() / f"hadoop-{HADOOP_VERSION}",
    selections=(
        Selection(
            (
                f"org.apache.hadoop:hadoop-client-minicluster:{HADOOP_VERSION}",
                f"org.apache.hadoop:hadoop-client-api:{HADOOP_VERSION}",
                f"org.apache.hadoop:hadoop-client-runtime:{HADOOP_VERSION}",
                "org.junit.jupiter:junit-jupiter-api:5.10.2",
                "org.mockito:mockito-core:4.11.0",
            )
        ),
    ),
    about_mb=120,
)
