"""This machine: what it is called, and how many of its cores this process may use."""

import os
import socket
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")


def machine_name() -> str | None:
    """Return the host name; a container's is its own. None if the machine has none."""
    return socket.gethostname() or None


def usable_cores(cgroups: Path = _CGROUPS) -> int:
    """Return how many cores this process may use: those it is allowed to run on, and no more than
    its container's share of CPU time makes up."""
    cores = len(os.sched_getaffinity(0))
    share = _share(cgroups)
    return cores if share is None else max(1, min(cores, int(share)))


def _share(cgroups: Path) -> float | None:
    """Return the CPU seconds per second that the container may use; None without a limit."""
    quota, period = _words(cgroups / "cpu.max", 2)  # version 2
    if not quota:
        (quota,) = _words(cgroups / "cpu" / "cpu.cfs_quota_us", 1)
        (period,) = _words(cgroups / "cpu" / "cpu.cfs_period_us", 1)
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return None  # "max", or -1 in version 1
    return int(quota) / int(period)


def _words(path: Path, count: int) -> list[str]:
    try:
        words = path.read_text().split()
    except OSError:
        words = []
    return (words + [""] * count)[:count]
