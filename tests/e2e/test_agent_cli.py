"""`headrace agent` on the command line: check, draw, run, signals, reload, the monitor."""

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from headrace.testing.readiness import free_port, wait_until
from testkit.peer.peer import PeerMissing, find_program, require_peer
from testkit.process.agent_process import AgentProcess
from testkit.process.command_line import run_headrace

FLOW = """\
# The first example of Flume's user guide
a1.sources = r1
a1.sinks = k1
a1.channels = c1

a1.sources.r1.type = netcat
a1.sources.r1.bind = localhost
a1.sources.r1.port = {port}

a1.sinks.k1.type = logger

a1.channels.c1.type = memory
a1.channels.c1.capacity = 1000
a1.channels.c1.transactionCapacity = 100

a1.sources.r1.channels = c1
a1.sinks.k1.channel = c1
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "flow.conf"
    path.write_text(FLOW.format(port=44444))
    return path


def test_check_reports_a_correct_file(file: Path) -> None:
    found = run_headrace("agent", "check", str(file))
    assert (found.code, found.out) == (0, f"{file}: agent a1 is fine\n")


def test_check_reports_the_line_and_what_to_write(file: Path) -> None:
    file.write_text(file.read_text().replace("type = netcat", "type = netcatt"))
    found = run_headrace("agent", "check", str(file))
    assert found.code == 1
    assert f"{file}:6: error: source r1: there is no source of type 'netcatt'" in found.out
    assert "did you mean netcat?" in found.out


def test_draw_shows_the_flow(file: Path) -> None:
    found = run_headrace("agent", "draw", str(file))
    assert found.lines == ["agent a1", "  r1 (netcat)  -->  c1 (memory)  -->  k1 (logger)"]


def test_an_agent_that_is_not_in_the_file_is_one_sentence(file: Path) -> None:
    found = run_headrace("agent", "run", "--conf", str(file), "--name", "a2")
    assert (found.code, found.out) == (2, "")
    assert found.err == (
        "headrace: there is no agent called a2 in the configuration: it describes a1\n"
    )


def test_run_logs_what_nc_sends_and_stops_on_sigterm(tmp_path: Path) -> None:
    try:
        program = find_program("nc", package="netcat-openbsd")
    except PeerMissing as missing:
        require_peer(str(missing))
    port = free_port()
    with AgentProcess(tmp_path, FLOW.format(port=port)) as agent:
        wait_until(lambda: _listens(port), what="the source")
        answer = subprocess.run(
            [str(program), "-N", "localhost", str(port)],
            input=b"Hello world!\n",
            capture_output=True,
            timeout=60,
            check=True,
        )
        assert answer.stdout == b"OK\n"
        wait_until(lambda: "Hello world!" in agent.log, what="the event in the log")
        assert agent.stop() == 0
        assert "48 65 6C 6C 6F" in agent.log
        assert agent.log.splitlines()[-1] == "Stopped."


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("localhost", port)).close()
    except OSError:
        return False
    return True


def test_the_monitor_and_a_reload(tmp_path: Path) -> None:
    conf = tmp_path / "flow.conf"
    conf.write_text(FLOW.format(port=free_port()))
    command = ["agent", "run", "-f", str(conf), "--monitor", "127.0.0.1:0", "--poll-seconds", "0.1"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "headrace.cli.main", *command], stdout=log, stderr=log
        )
    try:

        def output() -> str:
            return (tmp_path / "log").read_text()

        wait_until(lambda: "/metrics" in output(), what="the monitor")
        found = re.search(r"http://\S+/metrics", output())
        assert found is not None
        metrics = json.load(urllib.request.urlopen(found.group(0)))
        assert metrics["CHANNEL.c1"]["ChannelCapacity"] == "1000"
        conf.write_text(FLOW.format(port=free_port()).replace("capacity = 1000", "capacity = 2000"))

        def capacity() -> str:
            answer: dict[str, dict[str, str]] = json.load(urllib.request.urlopen(found.group(0)))
            return answer["CHANNEL.c1"]["ChannelCapacity"]

        wait_until(lambda: capacity() == "2000", what="the new configuration")
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(90)
    assert code == 0
