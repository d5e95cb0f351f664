"""Python packages of peers that are kept out of the tests' own, each in a folder by its name.

`tools/setup-peers` puts them there. A test runs a program with them in a process of its own.
"""

import subprocess
import sys
from pathlib import Path

from testkit.peer.peer import PeerMissing


def find_packages(name: str) -> Path:
    """Return the folder of a peer's packages, for `PYTHONPATH`.

    Raises:
        PeerMissing: the set-up did not run.
    """
    folder = Path(sys.prefix) / name
    if not (folder / "installed.lock").is_file():
        raise PeerMissing(f"{name} is not installed: run tools/setup-peers")
    return folder


def run_program(name: str, program: Path, *arguments: str, text: str = "") -> str:
    """Run a program with a peer's packages and return what it prints.

    Args:
        text: what it reads from its standard input.

    Raises:
        PeerMissing: the set-up did not run.
    """
    done = subprocess.run(
        [sys.executable, str(program), *arguments],
        env={"PYTHONPATH": str(find_packages(name))},
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
