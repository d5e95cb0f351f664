"""Prometheus' own checker of rules and expressions."""

import shutil
import subprocess
import sys
from pathlib import Path

from testkit.peer.peer import PeerMissing


class Promtool:
    """`promtool`, from the virtual environment, where tools/setup-peers puts it, or the path.

    Raises:
        PeerMissing: there is none.
    """

    def __init__(self) -> None:
        beside = Path(sys.executable).parent / "promtool"
        found = str(beside) if beside.is_file() else shutil.which("promtool")
        if found is None:
            raise PeerMissing("promtool is not installed: tools/setup-peers gets it from Debian")
        self._path = found

    def run(self, *arguments: str) -> str:
        """Return what it says; AssertionError with that if it finds something wrong."""
        done = subprocess.run([self._path, *arguments], capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        assert done.returncode == 0, said
        return said
