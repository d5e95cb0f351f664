"""`headrace agent new`: the written test passes, and the written agent runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.testing.readiness import wait_until
from testkit.process.command_line import run_headrace


def run_in(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("kind", ["source", "sink"])
def test_the_written_test_passes(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "mine"
    found = run_headrace("agent", "new", kind, "shop-orders", "--folder", str(folder))
    assert found.code == 0
    module = f"shop_orders_{kind}"
    assert {path.name for path in folder.iterdir()} == {
        f"{module}.py",
        f"test_{module}.py",
        "agent.conf",
    }
    passed = run_in(folder, "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder))
    assert passed.returncode == 0, passed.stdout
    checked = run_in(folder, "headrace.cli.main", "agent", "check", "agent.conf")
    assert (checked.returncode, checked.stdout) == (0, "agent.conf: agent a1 is fine\n")


def test_the_written_agent_runs(tmp_path: Path) -> None:
    run_headrace("agent", "new", "sink", "orders", "--folder", str(tmp_path))
    command = [sys.executable, "-m", "headrace.cli.main", "agent", "run", "--conf", "agent.conf"]
    output = tmp_path / "orders.out"
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL) as agent:
        try:
            wait_until(
                lambda: output.exists() and len(output.read_bytes().splitlines()) == 10,
                what="the events",
                timeout_seconds=120,
            )
        finally:
            agent.terminate()
    assert agent.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("channel", "x"), "choose source or sink"),
        (("source", "9"), "cannot be a name"),
        (("sink", "orders"), "exists: choose another name"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, arguments: tuple[str, str], message: str) -> None:
    (tmp_path / "agent.conf").write_text("mine")
    found = run_headrace("agent", "new", *arguments, "--folder", str(tmp_path))
    assert found.code != 0
    assert message in found.err
    assert (tmp_path / "agent.conf").read_text() == "mine"
