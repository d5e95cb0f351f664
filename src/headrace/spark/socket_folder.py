"""A folder for the Unix domain sockets between Spark's Java process and its Python workers.

Over them a small micro-batch takes a tenth less time than over TCP on loopback. Spark's Java
process then asks for no secret when it is called: who may open a socket may run code. So the
sockets lie in a folder that only this user may enter, not in the shared folder for temporary files,
which is Spark's default and leaves the matter to the umask.

A driver removes its folder when it ends. What a killed one left is removed by the next driver of
the same user (`locked_folder`).
"""

import atexit
import os
import socket
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from headrace.spark.locked_folder import LockedFolder

_ENABLED: Final = "spark.python.unix.domain.socket.enabled"
_FOLDER: Final = "spark.python.unix.domain.socket.dir"
# The longest path of a socket on macOS; Linux allows 107.
_PATH_MAX_BYTES: Final = 103
# What Spark adds to the folder: "/.", a UUID and ".sock".
_NAME_BYTES: Final = 43

# By process: a forked one makes its own.
_folders: "dict[int, LockedFolder]" = {}


def socket_settings() -> dict[str, str]:
    """Return Spark's settings for such sockets in a folder of this process; none where the system
    has none, where no folder can be made, or where its name would be too long for a socket's.

    They serve only a driver and executors on this machine: a cluster's machines lack the folder.
    """
    if not hasattr(socket, "AF_UNIX"):
        return {}
    try:
        folder = _folder()
    except OSError:
        return {}  # Spark works over TCP, only more slowly
    if len(os.fsencode(folder)) + _NAME_BYTES > _PATH_MAX_BYTES:
        return {}
    return {_ENABLED: "true", _FOLDER: folder}


def sockets_were_used() -> bool:
    """Return whether a session of this process may have had such settings."""
    return os.getpid() in _folders


def _folder() -> str:
    """Return the folder, which is removed when this process ends; a new one if it is gone."""
    # Imported here: a system without such sockets lacks its locks as well.
    from headrace.spark.locked_folder import LockedFolder, remove_abandoned

    owner = os.getpid()
    folder = _folders.get(owner)
    if folder is None or not folder.exists():
        remove_abandoned()
        folder = _folders[owner] = LockedFolder.make()
        atexit.register(_remove, folder, owner)
    return folder.path


def _remove(folder: "LockedFolder", owner: int) -> None:
    # A forked child that ends in the usual way comes here too.
    if os.getpid() == owner:
        folder.remove()
