"""Lets Spark start the Python of this process where it would start any `python3`.

Spark starts Python processes to look for data sources and to run tasks: the interpreter that
PYSPARK_DRIVER_PYTHON or PYSPARK_PYTHON names, or else the first `python3` on the PATH. A program
that runs as `.venv/bin/python program.py`, without activating the environment, would get the
system's Python, which has no Headrace: Spark then says DATA_SOURCE_NOT_FOUND.

Rule 1: variables that the user has set decide. Nothing is changed then.
Rule 2: otherwise the folder of this interpreter is put first on the PATH of this process, as
activating the environment does. A folder of the system is not: it holds more than Python, another
`java` for one. The PYSPARK variables stay unset, because with a remote master they
would name a path of this machine to executors on others. The PATH stays on this machine.

Executors import this file too: it needs no module that Python has not loaded at its start.
"""

import os
import sys
from collections.abc import MutableMapping

_CHOSEN = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
# Set by spark-submit: the Java process that starts Python runs already, with a PATH of its own.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"
_SYSTEM_FOLDERS = ("/bin", "/usr/bin", "/usr/local/bin")


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
    folder, _, _ = executable.rpartition("/")
    if folder in _SYSTEM_FOLDERS:
        return
    path = environment.get("PATH", os.defpath)
    if _has_python3(folder) and folder != next(filter(_has_python3, path.split(os.pathsep)), None):
        environment["PATH"] = os.pathsep.join((folder, path))


def _has_python3(folder: str) -> bool:
    return os.access(f"{folder}/python3", os.X_OK)
