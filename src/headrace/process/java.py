"""The Java of this machine, which runs Spark, ZooKeeper and the Kafka tools of the tests."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from headrace.model.error import HeadraceError

MINIMUM_MAJOR = 17
_PACKAGE = f"openjdk-{MINIMUM_MAJOR}-jre-headless"
_ANSWER_SECONDS = 60


class JavaMissing(HeadraceError):
    """No Java that Spark can use is installed; the message says how to get one."""


@dataclass(frozen=True, slots=True)
class Java:
    """A `java` program new enough for Kafka and Spark."""

    path: Path
    major: int

    def command(
        self,
        main_class: str,
        arguments: Iterable[str] = (),
        *,
        classpath: str,
        options: Iterable[str] = (),
    ) -> list[str]:
        """Return the arguments that run `main_class`, without a shell."""
        return [str(self.path), *options, "-cp", classpath, main_class, *arguments]


@cache
def find_java() -> Java:
    """Return the Java of `$JAVA_HOME`, or else the one on the path, as Spark's own scripts do.

    Raises:
        JavaMissing: there is none, it does not run, or it is older than Java 17.
    """
    home = os.environ.get("JAVA_HOME")
    path = shutil.which(str(Path(home) / "bin" / "java") if home else "java")
    if path is None:
        where = f"JAVA_HOME ({home}) has no bin/java" if home else "there is no java on the path"
        raise JavaMissing(f"{where}; install {_PACKAGE}, or set JAVA_HOME to a Java of 17 or newer")
    try:
        answer = subprocess.run(  # noqa: S603
            [path, "-version"], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise JavaMissing(f"{path} does not run ({error}); install {_PACKAGE}") from error
    version = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    major = int(version.group(1)) if version else 0
    if major < MINIMUM_MAJOR:
        raise JavaMissing(
            f"{path} is Java {major}, and Java {MINIMUM_MAJOR} is needed; install {_PACKAGE}, or"
            " set JAVA_HOME to a newer one"
        )
    return Java(Path(path), major)
