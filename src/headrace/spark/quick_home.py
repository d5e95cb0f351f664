"""A SPARK_HOME from which Spark's Python processes start quickly.

Spark looks for its Python files in a zip below SPARK_HOME and puts it first on the import path.
Python compiles each file of a zip again in every process: 1.3 s of a core instead of 0.2, in each
of the five to ten processes that a query starts, and Spark gives up on a process that has not
responded in ten seconds. Where PySpark is installed as a package, the same files are there,
compiled. So Spark gets a SPARK_HOME of links to everything but the zip.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pyspark

_LINKED = ("bin", "jars", "sbin")


def quick_home(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder, created if necessary; None if the environment already says what to use.

    It serves only a driver and executors on this machine that run this Python.
    """
    if "SPARK_HOME" in environment or environment.get("PYSPARK_PYTHON", _ME) != _ME:
        return None
    own = Path(pyspark.__file__).parent
    if not all((own / each).is_dir() for each in _LINKED[:2]):
        return None  # not PySpark as pip installs it
    base = environment.get("XDG_CACHE_HOME")
    cache = Path(base) if base else Path.home() / ".cache"
    digest = hashlib.sha256(str(own).encode()).hexdigest()[:12]
    home = cache / "headrace" / f"spark-{pyspark.__version__}-home-{digest}"
    try:
        return home if home.is_dir() else _create(home, own)
    except OSError:
        return None  # Spark works without it, only more slowly


_ME = sys.executable


def _create(home: Path, own: Path) -> Path:
    """Create the folder in one step: two programs may start at once."""
    home.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=home.parent, prefix=".home-"))
    try:
        for each in _LINKED:
            if (own / each).is_dir():
                (unfinished / each).symlink_to(own / each)
        unfinished.rename(home)
    except OSError:
        shutil.rmtree(unfinished, ignore_errors=True)
        if not home.is_dir():
            raise
    return home
