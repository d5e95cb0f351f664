"""A SPARK_HOME from which Spark's Python processes start quickly.

Below SPARK_HOME Spark looks for its Python files in a zip and puts that before everything else that
a process can import. Out of a zip Python compiles each file anew: 1.3 s of a core instead of 0.2,
in every one of the five to ten processes that a query starts, and Spark gives up on one that has
not answered in ten seconds. Where PySpark is installed as a package the same files lie there,
compiled. So Spark gets a SPARK_HOME of links that has everything but the zip.
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
    """The folder, made if it is not there; None if Spark must go by what is set already.

    Only for a driver and executors on this machine, whose Python is this one.
    """
    if "SPARK_HOME" in environment or environment.get("PYSPARK_PYTHON", _ME) != _ME:
        return None
    own = Path(pyspark.__file__).parent
    if not all((own / each).is_dir() for each in _LINKED[:2]):
        return None  # not PySpark as pip installs it
    base = environment.get("XDG_CACHE_HOME")
    cache = Path(base) if base else Path.home() / ".cache"
    of_this = hashlib.sha256(str(own).encode()).hexdigest()[:12]
    home = cache / "headrace" / f"spark-{pyspark.__version__}-home-{of_this}"
    try:
        return home if home.is_dir() else _made(home, own)
    except OSError:
        return None  # it is only quicker with it


_ME = sys.executable


def _made(home: Path, own: Path) -> Path:
    """Whole or not at all: two programs may begin at once."""
    home.parent.mkdir(parents=True, exist_ok=True)
    begun = Path(tempfile.mkdtemp(dir=home.parent, prefix=".home-"))
    try:
        for each in _LINKED:
            if (own / each).is_dir():
                (begun / each).symlink_to(own / each)
        begun.rename(home)
    except OSError:
        shutil.rmtree(begun, ignore_errors=True)
        if not home.is_dir():
            raise
    return home
