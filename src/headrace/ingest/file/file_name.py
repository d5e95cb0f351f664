"""Names of files as text that can be sent."""

import os
from pathlib import PurePath


def printable(path: PurePath) -> str:
    """A path for headers and marks. A name is bytes, and those that are no UTF-8 are written as
    `\\xNN`, because no text that a peer could read has them.

    >>> printable(PurePath("/var/log/app"))
    '/var/log/app'
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")
