"""A child ends when the process that started it is killed."""

import signal
import subprocess
import sys
from pathlib import Path

from headrace.testing.readiness import wait_until

SCRIPT = """
import os, signal, subprocess
from headrace.process.die_with_parent import die_with_parent

child = subprocess.Popen(["sleep", "600"], preexec_fn=die_with_parent)
print(child.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""

LATE = """
import os, time
from headrace.process.die_with_parent import die_with_parent

parent = os.getpid()
if os.fork() == 0:
    while os.getppid() == parent:
        time.sleep(0.001)
    die_with_parent()
    print("alive", flush=True)
"""


def test_a_child_whose_parent_has_ended_already_dies_as_well() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATE], stdout=subprocess.PIPE, text=True, timeout=60
    )

    assert done.stdout == "", "the output ends with the last process that has it"


def test_a_child_dies_with_its_parent() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], stdout=subprocess.PIPE, text=True, timeout=60
    )
    child = Path("/proc") / done.stdout.strip()

    assert done.returncode == -signal.SIGKILL
    wait_until(lambda: not is_sleeping(child), what="the end of the child")


def is_sleeping(process: Path) -> bool:
    """Return whether the child runs. A dead process that no parent has reaped has no command
    line."""
    try:
        return (process / "cmdline").read_bytes().startswith(b"sleep")
    except OSError:
        return False
