"""Commands that are forks behave as processes that were started alone."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.testing.readiness import wait_until
from testkit.process.forked_process import ForkedProcess, ForkServers

SECONDS = 90.0


@pytest.fixture(scope="module")
def servers() -> Iterator[ForkServers]:
    made = ForkServers({"--version": (), "topic": (), "agent": (), "up": ()})
    yield made
    made.close()


class Command:
    """A fork, and what it writes."""

    def __init__(self, servers: ForkServers, folder: Path, *arguments: str) -> None:
        self._output = folder / "output"
        with self._output.open("wb") as output:
            forked = servers.start(arguments, folder, output.fileno())
        assert forked is not None
        self.process: ForkedProcess = forked

    @property
    def said(self) -> str:
        return self._output.read_text()


def test_it_ends_with_its_exit_code_and_output(servers: ForkServers, tmp_path: Path) -> None:
    done = Command(servers, tmp_path, "--version")
    wrong = Command(servers, tmp_path / "..", "topic", "--no-such-option")

    assert (done.process.wait(SECONDS), wrong.process.wait(SECONDS)) == (0, 2)
    assert done.said.startswith("headrace ")
    assert "no-such-option" in wrong.said
    assert done.process.poll() == 0


def test_it_runs_in_its_folder(servers: ForkServers, tmp_path: Path) -> None:
    (tmp_path / "here.conf").write_text("")
    check = ("agent", "check", "here.conf")
    found = Command(servers, tmp_path, *check)
    found.process.wait(SECONDS)

    assert "here.conf describes no agent" in found.said


def test_it_has_the_environment_of_this_moment(
    servers: ForkServers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_BROKERS", "no-port-of-mine")
    asked = Command(servers, tmp_path, "topic", "list")

    assert asked.process.wait(SECONDS) != 0
    assert "no-port-of-mine" in asked.said


def test_signals_reach_it_and_each_has_a_session_of_its_own(
    servers: ForkServers, tmp_path: Path
) -> None:
    words = ("up", "--listen", "127.0.0.1:0", "--data")
    stopped = Command(servers, tmp_path, *words, str(tmp_path / "one"))
    wait_until(lambda: "listens on" in stopped.said, what="the first broker")
    with pytest.raises(subprocess.TimeoutExpired):
        stopped.process.wait(0.0)
    assert os.getsid(stopped.process.pid) == stopped.process.pid
    stopped.process.terminate()

    assert stopped.process.wait(SECONDS) == 0
    killed = Command(servers, tmp_path, *words, str(tmp_path / "two"))
    wait_until(lambda: "listens on" in killed.said, what="the second broker")
    killed.process.kill()
    assert killed.process.wait(SECONDS) == -signal.SIGKILL
    killed.process.kill()  # harmless


def test_it_ends_with_the_server(tmp_path: Path) -> None:
    servers = ForkServers({"up": ()})
    data = ("--data", str(tmp_path / "data"))
    running = Command(servers, tmp_path, "up", "--listen", "127.0.0.1:0", *data)
    wait_until(lambda: "listens on" in running.said, what="the broker")

    servers.close()

    assert running.process.wait(SECONDS) == -signal.SIGKILL
    wait_until(
        lambda: not Path(f"/proc/{running.process.pid}").exists(), what="the end of the broker"
    )


def test_a_command_without_modules_starts_by_itself(tmp_path: Path) -> None:
    assert ForkServers({}).start(["up"], tmp_path, 1) is None
