"""Lets Spark start the Python of this process where it would start any `python3`.

Spark starts Python processes to look for data sources and to run tasks: the interpreter that
PYSPARK_DRIVER_PYTHON or PYSPARK_PYTHON names, or else the first `python3` on the PATH. A program
that runs as `.venv/bin/python program.py`, without activating the environment, would get the
system's Python, which has no Headrace: Spark then says DATA_SOURCE_NOT_FOUND.

Rule 1: variables that the user has set decide. Nothing is changed then.
Rule 2: otherwise the folder of this interpreter is put first on the PATH of this process, as
activating the environment does. The PYSPARK variables stay unset, because with a remote master they
would name a path of this machine to executors on others. The PATH stays on this machine.
"""

import os
import shutil
import sys
from collections.abc import MutableMapping
from pathlib import Path

_CHOSEN = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
# Set by spark-submit: the Java process that starts Python runs already, with a PATH of its own.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
_COMMAND = "python3"


def prefer_this_python(
    environment: MutableMapping[str, str] = os.environ, executable: str = sys.executable
) -> None:
    """Put the folder of `executable` first on the PATH, unless `python3` is found there already.

    Args:
        environment: the variables to change.
        executable: the interpreter that Spark should start.
    """
    if not executable or any(name in environment for name in (*_CHOSEN, _SUBMITTED)):
        return
    folder = Path(executable).parent
    path = environment.get("PATH", os.defpath)
    found = shutil.which(_COMMAND, path=path)
    if found is not None and Path(found).parent == folder:
        return
    if shutil.which(_COMMAND, path=str(folder)) is not None:
        environment["PATH"] = os.pathsep.join((str(folder), path))
