"""The demo as a user runs it: a process of its own, with broker, agent and Spark below it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.testing.readiness import wait_until
from testkit.peer.spark_archive import spark_java_environment

COMMAND = [sys.executable, "-m", "headrace.cli.main", "demo", "--headless", "--rate", "200"]
QUICK = ["--window", "4", "--slide", "2"]


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, **spark_java_environment(), "TMPDIR": str(folder)}


def children(pid: int) -> set[int]:
    """Every process below this one."""
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found |= {child} | children(child)
    return found


@pytest.mark.timeout(960)
def test_every_flow_of_a_bounded_run_is_right_and_nothing_is_left_behind(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, *QUICK, "--for", "5s"],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=900,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    for flow in ("page-counts", "page-minutes", "alerts", "country-views", "Parquet", "audit"):
        assert flow in done.stdout.partition("Right: ")[2]
    assert not list(tmp_path.glob("headrace-demo-*"))


def test_a_signal_stops_everything(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, *QUICK],
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "The site is open" in line:
            break
    below = children(process.pid)

    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=400)

    assert process.returncode == 0, said
    assert "Stopped." in said
    assert len(below) >= 3  # broker, agent, Java
    wait_until(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in below),
        what="the end of every process of the demo",
    )
    assert not list(tmp_path.glob("headrace-demo-*"))
