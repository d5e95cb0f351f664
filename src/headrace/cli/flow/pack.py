"""Packs the Python environment of this process for the machines of a cluster.

The archive holds a virtual environment: Spark unpacks it beside every container, and starts its
`bin/python` there. Rules of what is in it:

Rule 1: the interpreter itself is not. `bin/python` is a link to the one that the environment was
        created with, so every machine needs the same Python at the same path.
Rule 2: Spark's jars are not: the cluster has them, or Spark ships them by itself. They are four
        fifths of PySpark.
Rule 3: compiled files are, with their times: Numba's caches among them, without which each new
        container would compile for half a minute.
Rule 4: links to sources of this machine (`pip install -e`) are not: they lead nowhere on another
        one. Headrace itself is copied if it is installed so; install a package of your own
        without `-e`.
"""

import importlib.util
import io
import sys
import tarfile
from collections.abc import Collection, Iterator
from pathlib import Path

from headrace.model.error import ConfigError

# The name under which Spark unpacks the archive.
UNPACKED = "environment"
PYTHON = f"./{UNPACKED}/bin/python"
_OWN = ("headrace", "pyspark_headrace", "pyspark_headrace_kinesis")
_SPARK_ONLY = ("jars", "examples", "data", "licenses", "sbin", "R")
_INSTALLERS = ("pip", "setuptools", "wheel")
# Shared libraries hardly shrink, so the fastest level is nearly as good as the best.
_LEVEL = 1


def pack_environment(
    output: Path, *, prefix: Path | None = None, without: Collection[str] = ()
) -> int:
    """Write a virtual environment to a `.tar.gz`, and return its size in bytes.

    Args:
        prefix: the environment's folder; by default that of this process.
        without: packages to leave out, by the names of their folders.

    Raises:
        ConfigError: it is no virtual environment.
    """
    folder = Path(sys.prefix) if prefix is None else prefix
    if not (folder / "pyvenv.cfg").is_file():
        raise ConfigError(
            f"{folder} is no virtual environment: create one (python -m venv), install headrace"
            " in it, and run its headrace; an environment of conda is packed by conda-pack"
        )
    unfinished = output.with_name(f"{output.name}.unfinished")
    try:
        with tarfile.open(unfinished, "w:gz", compresslevel=_LEVEL) as archive:
            for name, path in _content(folder, frozenset(without)):
                archive.add(path, name, recursive=False)
            _add_python(archive, folder)
        unfinished.replace(output)
    finally:
        unfinished.unlink(missing_ok=True)
    return output.stat().st_size


def _content(folder: Path, without: frozenset[str]) -> Iterator[tuple[str, Path]]:
    """Yield the name in the archive and the path of every file."""
    yield "pyvenv.cfg", folder / "pyvenv.cfg"
    for packages in sorted(folder.glob("lib/python*/site-packages")):
        where = packages.relative_to(folder).as_posix()
        for path in _files(packages, without):
            yield f"{where}/{path.relative_to(packages).as_posix()}", path
        for package in _linked(packages):
            for path in _files(package, frozenset()):
                yield f"{where}/{path.relative_to(package.parent).as_posix()}", path


def _files(packages: Path, without: frozenset[str]) -> Iterator[Path]:
    """Yield the files below a folder that a driver or an executor may import."""
    left_out = {*_INSTALLERS, *without}
    for path in sorted(packages.rglob("*")):
        parts = path.relative_to(packages).parts
        if path.is_dir() or parts[0] in left_out or _is_link(path, parts):
            continue
        if parts[0] == "pyspark" and len(parts) > 1 and parts[1] in _SPARK_ONLY:
            continue
        yield path


def _is_link(path: Path, parts: tuple[str, ...]) -> bool:
    """Return whether it is a link of `pip install -e` to sources of this machine."""
    if parts[0].startswith("__editable__"):
        return True
    return len(parts) == 1 and path.suffix == ".pth" and path.read_text().startswith("/")


def _linked(packages: Path) -> Iterator[Path]:
    """Yield the folders of our own packages that lie elsewhere."""
    for name in _OWN:
        spec = importlib.util.find_spec(name)
        for place in (spec and spec.submodule_search_locations) or ():
            if not (packages / name).exists():
                yield Path(place)


def _add_python(archive: tarfile.TarFile, folder: Path) -> None:
    interpreter = str((folder / "bin" / "python").resolve())
    for name in ("python", "python3"):
        link = tarfile.TarInfo(f"bin/{name}")
        link.type, link.linkname = tarfile.SYMTYPE, interpreter
        archive.addfile(link, io.BytesIO())
