"""The Java of this machine: Spark, ZooKeeper and the Kafka tools of the tests run on it."""

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
    """There is no Java that Spark can use; the message says how to get one."""


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
        """The argument list that runs `main_class`; no shell reads it."""
        return [str(self.path), *options, "-cp", classpath, main_class, *arguments]


@cache
def find_java() -> Java:
    """`$JAVA_HOME`'s Java, or else the one on the path: what Spark's own scripts take.

    Raises:
        JavaMissing: when there is none, it does not run, or it is older than Java 17.
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
    found = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    major = int(found.group(1)) if found else 0
    if major < MINIMUM_MAJOR:
        raise JavaMissing(
            f"{path} is Java {major}, and Java {MINIMUM_MAJOR} is needed; install {_PACKAGE}, or"
            " set JAVA_HOME to a newer one"
        )
    return Java(Path(path), major)
