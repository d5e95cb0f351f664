"""One supervisor per data directory, and none beside a single broker."""

import fcntl
import os
import signal
import subprocess
import sys

import pytest

from headrace.cli.supervisor.cluster_supervisor import ClusterSupervisor
from headrace.cli.supervisor.supervisor_lock import LOCK_NAME, SupervisorLock, refuse_supervised
from headrace.model.error import ConfigError

HOLD = """
import sys, time
from pathlib import Path
from headrace.cli.supervisor.supervisor_lock import SupervisorLock
lock = SupervisorLock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that has the lock."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout.readline() == b"held\n"
            yield process
        finally:
            process.kill()


def test_a_second_one_is_refused_by_name(tmp_path, holder):
    sentence = rf"another headrace up \(process {holder.pid}\) runs in .*: stop that one, or"

    with pytest.raises(ConfigError, match=sentence):
        SupervisorLock(tmp_path)
    with pytest.raises(ConfigError, match=sentence):
        ClusterSupervisor(2, {"log.dirs": str(tmp_path)}, []).run()
    assert [each.name for each in tmp_path.iterdir()] == [LOCK_NAME]  # nothing was begun


def test_the_lock_of_one_that_was_killed_is_free(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()

    SupervisorLock(tmp_path).release()


def test_it_is_free_after_its_release(tmp_path):
    for _ in range(2):
        SupervisorLock(tmp_path).release()
    refuse_supervised(tmp_path)


@pytest.mark.parametrize("brokers", ["1", "2"])
def test_the_command_is_refused_with_one_sentence(tmp_path, holder, brokers):
    command = [sys.executable, "-m", "headrace.cli.main", "up", "--brokers", brokers]
    done = subprocess.run([*command, "--data", str(tmp_path)], capture_output=True, check=False)

    assert done.returncode == 2
    refusal = f"headrace: another headrace up (process {holder.pid}) runs in {tmp_path}: stop"
    assert done.stderr.decode().startswith(refusal)


def test_none_starts_beside_a_single_broker(tmp_path):
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        with pytest.raises(ConfigError, match="a single broker runs in"):
            SupervisorLock(tmp_path)


def test_a_lock_is_no_way_to_write_elsewhere(tmp_path):
    """Another user who can write to the directory may have put a link there."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / LOCK_NAME).symlink_to(tmp_path / "precious")

    with pytest.raises(ConfigError, match="cannot be made"):
        SupervisorLock(tmp_path / "data")
    assert not (tmp_path / "precious").exists()


def test_only_its_user_reads_it(tmp_path):
    lock = SupervisorLock(tmp_path)

    assert (tmp_path / LOCK_NAME).stat().st_mode & 0o777 == 0o600
    assert (tmp_path / LOCK_NAME).read_text() == str(os.getpid())
    lock.release()
