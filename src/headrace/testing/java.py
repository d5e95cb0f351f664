"""The Java of this machine, and command lines for it."""

import os
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from headrace.testing.peer import PeerMissing, find_program

MINIMUM_MAJOR = 17

# For runs of a few seconds: compile once and cheaply, collect with one thread, share the cores.
SHORT_RUN = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")


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
    """`$JAVA_HOME`'s Java, or else the one on the path.

    Raises:
        PeerMissing: when there is none, or it is older than Java 17.
    """
    home = os.environ.get("JAVA_HOME")
    package = f"openjdk-{MINIMUM_MAJOR}-jre-headless"
    path = Path(home) / "bin" / "java" if home else find_program("java", package=package)
    try:
        answer = subprocess.run(  # noqa: S603
            [str(path), "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise PeerMissing(f"{path} does not run ({error}); install {package}") from error
    found = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    major = int(found.group(1)) if found else 0
    if major < MINIMUM_MAJOR:
        raise PeerMissing(f"{path} is Java {major}, too old; install {package} or set JAVA_HOME")
    return Java(path, major)
