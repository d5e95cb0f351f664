"""Children get their configuration where no other user of the machine sees it."""

import sys
from pathlib import Path

import pytest

from headrace.cli.supervisor.cluster_supervisor import ClusterSupervisor
from headrace.cli.supervisor.supervised_child import SupervisedChild
from headrace.testing.readiness import wait_until

SECRET = "hush-4711"
SCRIPT = "import sys, time; print('read', sys.stdin.read(), flush=True); time.sleep(600)"


def test_a_child_reads_its_configuration_from_its_input(
    capfd: pytest.CaptureFixture[str],
) -> None:
    command = [sys.executable, "-c", SCRIPT]
    child = SupervisedChild("one", command, "read", f"ssl.key.password={SECRET}")
    child.start()
    try:
        wait_until(child.announced.is_set, what="its line", timeout_seconds=60)
        assert child._process is not None
        proc = Path("/proc") / str(child._process.pid)
        seen = (proc / "cmdline").read_bytes() + (proc / "environ").read_bytes()
    finally:
        child.kill()

    assert SECRET in capfd.readouterr().out
    assert SCRIPT.encode() in seen and SECRET.encode() not in seen


def test_a_child_that_reads_nothing_does_no_harm() -> None:
    child = SupervisedChild("one", ["/bin/true"], "read", "x" * 1_000_000)
    child.start()
    child.stop()

    assert not child.running


def test_the_brokers_of_a_cluster_have_no_secret_in_their_command(tmp_path: Path) -> None:
    texts = {
        "log.dirs": str(tmp_path),
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "ssl.key.password": SECRET,
    }

    supervisor = ClusterSupervisor(2, texts, ["--log-level", "info"])

    for number, child in supervisor._children.items():
        assert SECRET not in " ".join(child._command)
        assert f"ssl.key.password={SECRET}\n" in child._configuration
        assert f"node.id={number}\n" in child._configuration
