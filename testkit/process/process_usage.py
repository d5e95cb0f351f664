"""What a process has cost so far, read from /proc: the honest figure on a machine of few cores."""

import os
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ProcessUsage:
    """CPU time and memory of one process, all its threads together, without its children.

    Attributes:
        cpu_seconds: user and system time since it started; take the difference of two readings.
        rss_bytes: resident memory now.
        peak_rss_bytes: the most it ever was.
    """

    cpu_seconds: float
    rss_bytes: int
    peak_rss_bytes: int

    @classmethod
    def of(cls, pid: int) -> "ProcessUsage":
        """Return the usage of a running process.

        Raises:
            ProcessLookupError: when there is no such process.

        >>> ProcessUsage.of(os.getpid()).rss_bytes > 0
        True
        """
        folder = Path("/proc") / str(pid)
        try:
            stat = (folder / "stat").read_text()
            status = (folder / "status").read_text()
        except FileNotFoundError:
            raise ProcessLookupError(f"there is no process {pid}") from None
        # The program's name is in parentheses and may hold spaces: fields are counted behind it.
        fields = stat.rpartition(")")[2].split()
        user_ticks, system_ticks = int(fields[11]), int(fields[12])
        sizes = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        return cls(
            cpu_seconds=(user_ticks + system_ticks) / _TICKS_PER_SECOND,
            rss_bytes=_kib(sizes.get("VmRSS")) * 1024,
            peak_rss_bytes=_kib(sizes.get("VmHWM")) * 1024,
        )


def _kib(text: str | None) -> int:
    """Return 1234 for `'  1234 kB'`; 0 for None: an ending process has no memory lines."""
    return int(text.split()[0]) if text else 0
