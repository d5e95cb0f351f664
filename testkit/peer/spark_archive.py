"""The archive of Spark's classes (see `class_archive`), for every Java of Spark that tests start.

A driver loads some fifteen thousand classes from Spark's jars before it has run its first batch:
with the archive a small query takes 12 s of CPU instead of 20. `tools/setup-peers` makes it, in
half a minute; without it the tests take longer.
"""

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pyspark

from headrace.process.die_with_parent import die_with_parent
from headrace.spark.quick_home import quick_home
from testkit.peer.class_archive import archive_path, keep_archive, options_of
from testkit.peer.java import SHORT_RUN, find_java
from testkit.peer.maven import cache_folder
from testkit.peer.peer import PeerMissing

_MAKE_SECONDS = 600.0


def spark_jars() -> Path:
    """Return the folder of Spark's jars, by the path on which Java finds them."""
    home = os.environ.get("SPARK_HOME") or quick_home() or Path(pyspark.__file__).parent
    return Path(home) / "jars"


@cache
def spark_java_options() -> tuple[str, ...]:
    """Return the options of a Java of Spark that runs for seconds.

    Raises:
        PeerMissing: there is no Java.
    """
    archive = _archive()
    return (*SHORT_RUN, *(options_of(archive) if archive.exists() else ()))


def spark_java_environment() -> dict[str, str]:
    """Return the same for every Java that a command of the product starts, by its environment."""
    return {"JDK_JAVA_OPTIONS": " ".join(spark_java_options())}


def make_spark_archive() -> bool:
    """Make the archive if there is none; return whether there is one.

    Raises:
        PeerMissing: there is no Java.
    """
    archive = _archive()
    archive.parent.mkdir(parents=True, exist_ok=True)
    return archive.exists() or keep_archive(archive, _make)


def _archive() -> Path:
    jars = spark_jars()
    # To Java a class path is text, and a jar that was installed again is another one.
    belongs_to = f" {jars} {jars.stat().st_mtime_ns}"
    place = cache_folder() / f"spark-{pyspark.__version__}"
    return archive_path(place, find_java(), belongs_to=belongs_to)


def _make(archive: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="headrace-spark-") as folder:
        subprocess.run(
            [sys.executable, "-m", "testkit.peer.spark_class_load", str(archive), folder],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_MAKE_SECONDS,
            preexec_fn=die_with_parent,
            check=False,
        )


if __name__ == "__main__":
    try:
        made = make_spark_archive()
    except (OSError, PeerMissing, subprocess.SubprocessError):
        made = False
    if not made:
        sys.stderr.write("Spark's classes are not archived; tests with Spark take longer.\n")
