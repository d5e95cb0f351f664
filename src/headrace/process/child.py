"""Child processes that do not outlive the one who started them, however that one ends."""

import ctypes
import signal

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Give as `preexec_fn` to `subprocess.Popen`: the kernel kills the child with its parent.

    "Parent" is the thread that started it, so start such a child from a thread that stays.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
