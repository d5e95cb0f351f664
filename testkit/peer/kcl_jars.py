"""Which Amazon Kinesis Client Library the tests run."""

from testkit.peer.jar_set import JarSet, Selection
from testkit.peer.maven import cache_folder

KCL_VERSION = "3.5.1"

# The last one writes the library's log to standard error; its version is that of its slf4j.
KCL_JARS = JarSet(
    name=f"Kinesis Client Library {KCL_VERSION}",
    folder=lambda: cache_folder() / f"kinesis-client-{KCL_VERSION}",
    selections=(
        Selection(
            (
                f"software.amazon.kinesis:amazon-kinesis-client:{KCL_VERSION}",
                "org.slf4j:slf4j-simple:2.0.13",
            )
        ),
    ),
    about_mb=90,
)
