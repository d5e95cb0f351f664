"""Names of files as valid text."""

import os
from pathlib import PurePath


def printable(path: PurePath) -> str:
    """Return a path as text for headers and marks. A file name is bytes; those that are no UTF-8
    are written as `\\xNN`.

    >>> printable(PurePath("/var/log/app"))
    '/var/log/app'
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")
