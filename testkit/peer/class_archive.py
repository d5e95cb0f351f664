"""Java's archives of loaded classes (class data sharing): a Java that starts with one has them at
once.

To load classes is nearly half of what a tool of Kafka does in its short life, and tests start many.
An archive holds what one run has loaded. It lies beside the folder of the jars, and belongs to this
Java and to these jars; Java itself ignores one that does not fit, and loads what is missing in it.
"""

import hashlib
import subprocess
import tempfile
from collections.abc import Sequence
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
    seen = java.path.resolve()
    stamp = f"{seen} {seen.stat().st_mtime_ns}"
    digest = hashlib.sha256(stamp.encode()).hexdigest()[:12]
    archive = jars.folder.with_name(f"{jars.folder.name}-{digest}.jsa")
    with suppress(OSError, subprocess.SubprocessError):
        if archive.exists() or _make(archive, java, jars, command):
            # Java would say on standard output that an archive does not fit.
            return (f"-XX:SharedArchiveFile={archive}", "-Xlog:disable")
    return ()


def _make(archive: Path, java: Java, jars: Jars, command: Sequence[str]) -> bool:
    """Make it under another name: another process may make the same one."""
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=f".{archive.name}-") as folder:
        made = Path(folder) / archive.name
        options = [f"-XX:ArchiveClassesAtExit={made}", "-Xlog:disable", "-cp", jars.classpath]
        subprocess.run(
            [str(java.path), *options, *command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_MAKE_SECONDS,
            check=False,
        )
        if not made.exists():
            return False
        made.rename(archive)
        return True
