"""Jars from Maven Central, fetched once into a folder outside the source tree.

A folder is complete when it holds the marker file, which is written last and lists the jars; a
fetch that was cut short leaves no marker and is started again from nothing. A lock file beside the
folder lets two test runs share one fetch. Each folder has a Maven repository of its own
(`repository_of`), because Maven does not lock a repository and folders are fetched side by side; it
keeps the downloads of a fetch that failed, so starting again is cheap.
"""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from headrace.model.error import InvalidArgument
from testkit.peer.peer import PeerMissing, find_program

# Pinned: the version a distribution's Maven would choose by itself is a decade old.
_COPY_DEPENDENCIES = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_MARKER = ".complete"
_FETCH_SECONDS = 900

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>headrace</groupId>
  <artifactId>peer</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = (
    "    <dependency><groupId>{}</groupId><artifactId>{}</artifactId>"
    "<version>{}</version>{}</dependency>"
)
_NOTHING_MORE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


@dataclass(frozen=True, slots=True)
class Jars:
    """A complete folder of jars."""

    folder: Path

    @property
    def classpath(self) -> str:
        """Every jar of the folder; Java expands the star itself."""
        return str(self.folder / "*")


def cache_folder() -> Path:
    """Return the folder of fetched peers: `$XDG_CACHE_HOME/headrace`, or `~/.cache/headrace`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "headrace"


def pom(coordinates: Iterable[str], *, transitive: bool = True) -> str:
    """Return a Maven project that depends on some `group:artifact:version`, and no more.

    Args:
        transitive: False takes these jars alone, without what they need themselves. Maven then
            does not turn to the repositories that their projects name, either.

    Raises:
        InvalidArgument: for a coordinate that has not these three parts.
    """
    lines = []
    for coordinate in coordinates:
        parts = coordinate.split(":")
        if len(parts) != 3 or not all(parts):
            raise InvalidArgument(f"{coordinate!r} is no Maven coordinate: group:artifact:version")
        excluded = "" if transitive else _NOTHING_MORE
        lines.append(_DEPENDENCY.format(*map(escape, parts), excluded))
    return _POM.format(dependencies="\n".join(lines))


def find_jars(folder: Path) -> Jars | None:
    """Return the jars of an earlier `fetch_jars`; None if there was none or it was cut short."""
    try:
        listed = (folder / _MARKER).read_text().split()
    except FileNotFoundError:
        return None
    if not listed or not all((folder / name).is_file() for name in listed):
        return None
    return Jars(folder)


def fetch_jars(coordinates: Iterable[str], folder: Path, *, transitive: bool = True) -> Jars:
    """Make `folder` hold the coordinates and, if `transitive`, all that they need to run; once.

    Takes a minute or two the first time, so call it from a set-up step and not from a test.

    Raises:
        PeerMissing: when there is no Maven, or Maven cannot reach its repository.
    """
    text = pom(coordinates, transitive=transitive)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_name(folder.name + ".lock")):
        if (jars := find_jars(folder)) is not None:
            return jars
        maven = find_program("mvn", package="maven")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        with tempfile.TemporaryDirectory(prefix="headrace-maven-") as work:
            project = Path(work) / "pom.xml"
            project.write_text(text)
            _copy_dependencies(maven, project, folder)
        shutil.rmtree(repository_of(folder), ignore_errors=True)
        names = sorted(path.name for path in folder.glob("*.jar"))
        (folder / _MARKER).write_text("".join(f"{name}\n" for name in names))
    return Jars(folder)


def repository_of(folder: Path) -> Path:
    """Return Maven's local repository while it fetches `folder`: what it holds is the progress."""
    return folder.with_name(folder.name + ".repository")


def _copy_dependencies(maven: Path, project: Path, folder: Path) -> None:
    command = [str(maven), "--batch-mode", "--quiet", "--file", str(project), _COPY_DEPENDENCIES]
    command += [f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
    command += [f"-Dmaven.repo.local={repository_of(folder)}"]
    try:
        subprocess.run(command, check=True, timeout=_FETCH_SECONDS, capture_output=True, text=True)
    except subprocess.TimeoutExpired as error:
        raise PeerMissing(f"Maven did not finish in {_FETCH_SECONDS} s: {project}") from error
    except subprocess.CalledProcessError as error:
        said = (error.stdout + error.stderr).strip().splitlines()
        last = "\n".join(said[:8])
        raise PeerMissing(f"Maven could not fetch the jars for {folder.name}:\n{last}") from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an advisory lock that the kernel drops when this process dies."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
