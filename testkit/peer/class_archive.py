"""Java's archives of loaded classes (class data sharing): a Java that starts with one has them at
once.

To load classes is nearly half of what a tool of Kafka does in its short life, and tests start many.
An archive holds what one run has loaded. It lies beside the folder of the jars, and belongs to this
Java and to these jars; Java itself ignores one that does not fit, and loads what is missing in it.
"""

import hashlib
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from testkit.peer.java import Java
from testkit.peer.maven import Jars

_MAKE_SECONDS = 120.0


@cache
def archive_options(java: Java, jars: Jars, command: Sequence[str]) -> tuple[str, ...]:
    """Return the options that start a Java with the archive of these jars; none if there is none.

    The first call on a machine makes the archive, in a few seconds.

    Args:
        command: what a run that makes it does: options of its own, a main class, arguments.
    """

    def make(archive: Path) -> None:
        options = [f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:disable", "-cp", jars.classpath]
        subprocess.run(
            [str(java.path), *options, *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_MAKE_SECONDS,
            check=False,
        )

    archive = archive_path(jars.folder, java)
    with suppress(OSError, subprocess.SubprocessError):
        if archive.exists() or keep_archive(archive, make):
            return options_of(archive)
    return ()


def archive_path(place: Path, java: Java, *, belongs_to: str = "") -> Path:
    """Return the path of an archive for this Java.

    Args:
        place: what the path begins with.
        belongs_to: what else than this Java and the place makes it another archive.
    """
    seen = java.path.resolve()
    stamp = f"{seen} {seen.stat().st_mtime_ns}{belongs_to}"
    digest = hashlib.sha256(stamp.encode()).hexdigest()[:12]
    return place.with_name(f"{place.name}-{digest}.jsa")


def options_of(archive: Path) -> tuple[str, ...]:
    """Return the options that start a Java with an archive."""
    # Java would say on standard output that an archive does not fit.
    return (f"-XX:SharedArchiveFile={archive}", "-Xlog:disable")


def keep_archive(archive: Path, make: Callable[[Path], None]) -> bool:
    """Return whether an archive was made; `make` writes it to the path that it gets.

    That is another path: a second process may make the same one, and either may be cut short.
    """
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=f".{archive.name}-") as folder:
        made = Path(folder) / archive.name
        make(made)
        if not made.exists():
            return False
        made.rename(archive)
        return True
