"""Child processes that do not outlive the process that started them, however that ends."""

import ctypes
import signal

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends. Pass it to `subprocess.Popen` as
    `preexec_fn`.

    The kernel's "parent" is the thread that started the child: start it from one that stays.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
