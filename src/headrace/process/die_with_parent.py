"""Child processes that do not outlive the process that started them, however that ends."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)
_parent = os.getpid()


def _remember_parent() -> None:
    global _parent
    _parent = os.getpid()


os.register_at_fork(before=_remember_parent)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends. Pass it to `subprocess.Popen` as
    `preexec_fn`.

    The kernel's "parent" is the thread that started the child: start it from one that stays. It
    says nothing about a parent that ended before it was asked, so that is looked at afterwards.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != _parent:
        os.kill(os.getpid(), signal.SIGKILL)
