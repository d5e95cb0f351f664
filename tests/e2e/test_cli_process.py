"""Commands in processes of their own: signals, pipes, terminals, and brokers that go away."""

import os
import pty
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.process.die_with_parent import die_with_parent
from headrace.testing.readiness import wait_until
from testkit.process.broker_process import BrokerProcess
from testkit.process.command_line import Finished, run_headrace


class Running:
    """A command that runs. `lines` grows while it prints."""

    def __init__(self, address: str, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace.cli.main", *arguments],
            env={**os.environ, "HEADRACE_BROKERS": address},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            preexec_fn=die_with_parent,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.decode().rstrip("\n"))

    def type(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def shows(self, *lines: str) -> None:
        wait_until(lambda: sorted(self.lines) == sorted(lines), what=f"{lines} in {self.lines}")

    def end(self, number: signal.Signals | None = None) -> tuple[int, str]:
        """Send a signal, or end its input; exit code and standard error."""
        assert self.process.stdin is not None
        assert self.process.stderr is not None
        if number is None:
            self.process.stdin.close()
        else:
            self.process.send_signal(number)
        code = self.process.wait(90)
        self._reader.join()
        return code, self.process.stderr.read().decode()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()


Start = Callable[..., Running]


@pytest.fixture
def start(broker: BrokerProcess) -> Iterator[Start]:
    running: list[Running] = []

    def begin(*arguments: str, address: str | None = None) -> Running:
        running.append(Running(address or broker.address, *arguments))
        return running[-1]

    yield begin
    for each in running:
        each.close()


def run(address: str, *arguments: str, stdin: bytes = b"") -> Finished:
    ended = run_headrace(*arguments, stdin=stdin, environment={"HEADRACE_BROKERS": address})
    assert ended.code == 0, ended
    return ended


def members(address: str, group: str) -> list[str]:
    described = run_headrace(
        "group", "describe", group, environment={"HEADRACE_BROKERS": address}
    ).lines
    found = [line.split()[1] for line in described if line.startswith("MEMBERS")]
    stable = any(re.fullmatch(r"STATE +Stable", line) for line in described)
    return found if stable else []


def test_what_comes_is_printed_until_ctrl_c(
    broker: BrokerProcess, topic: str, start: Start
) -> None:
    run(broker.address, "topic", "create", topic)
    reader = start("topic", "consume", topic)
    for line in ("one", "two"):
        run(broker.address, "topic", "produce", topic, stdin=line.encode())
    reader.shows("one", "two")

    assert reader.end(signal.SIGINT) == (0, "")


def test_the_exit_code_says_that_ctrl_c_came_before_enough_records(
    broker: BrokerProcess, topic: str, start: Start
) -> None:
    run(broker.address, "topic", "create", topic)
    run(broker.address, "topic", "produce", topic, stdin=b"one")
    reader = start("topic", "consume", topic, "-n", "2")
    reader.shows("one")

    assert reader.end(signal.SIGINT) == (130, "")


def test_typed_lines_are_sent_at_once(broker: BrokerProcess, topic: str, start: Start) -> None:
    run(broker.address, "topic", "create", topic)
    writer = start("topic", "produce", topic)
    reader = start("topic", "consume", topic)
    writer.type("first\n")
    reader.shows("first")
    writer.type("second\n")
    reader.shows("first", "second")

    assert writer.end() == (0, "")
    assert writer.lines[-1].split() == [topic, "0", "2", "0", "1"]


def test_a_stopped_member_has_committed_and_left(
    broker: BrokerProcess, topic: str, group: str, start: Start
) -> None:
    run(broker.address, "topic", "create", topic)
    run(broker.address, "topic", "produce", topic, stdin=b"one\ntwo")
    reader = start("topic", "consume", topic, "-g", group)
    reader.shows("one", "two")

    assert reader.end(signal.SIGTERM) == (0, "")

    described = run(broker.address, "group", "describe", group).lines
    assert described[2].split() == ["STATE", "Empty"]
    assert described[-1].split()[:6] == [topic, "0", "2", "0", "2", "0"]


def test_members_share_a_topic_and_one_takes_over(
    broker: BrokerProcess, topic: str, group: str, start: Start
) -> None:
    run(broker.address, "topic", "create", topic, "-p", "2")
    first = start("topic", "consume", topic, "-g", group, "-f", "%p:%v")
    second = start("topic", "consume", topic, "-g", group, "-f", "%p:%v")
    wait_until(lambda: members(broker.address, group) == ["2"], what="two members")

    for partition in ("0", "1"):
        run(broker.address, "topic", "produce", topic, "-p", partition, stdin=b"a")
    wait_until(lambda: len(first.lines) == len(second.lines) == 1, what="one record each")
    assert sorted(first.lines + second.lines) == ["0:a", "1:a"]

    assert first.end(signal.SIGINT) == (0, "")
    wait_until(lambda: members(broker.address, group) == ["1"], what="one member")
    for partition in ("0", "1"):
        run(broker.address, "topic", "produce", topic, "-p", partition, stdin=b"b")
    wait_until(lambda: len(second.lines) == 3, what="all records at one member")
    assert sorted(second.lines[1:]) == ["0:b", "1:b"]


@pytest.mark.parametrize("options", [[], ["-g", "curious"]])
def test_new_partitions_are_read_too(
    broker: BrokerProcess, topic: str, start: Start, options: list[str]
) -> None:
    run(broker.address, "topic", "create", topic)
    run(broker.address, "topic", "produce", topic, stdin=b"old")
    reader = start("topic", "consume", topic, *options, "-X", "metadata.max.age.ms=50")
    reader.shows("old")

    run(broker.address, "topic", "add-partitions", topic, "-n", "1")
    run(broker.address, "topic", "produce", topic, "-p", "1", stdin=b"new")

    reader.shows("old", "new")
    assert reader.end(signal.SIGINT) == (0, "")


def test_a_broker_that_is_killed_and_comes_back_doubles_and_loses_nothing(
    own_broker: BrokerProcess, topic: str, start: Start
) -> None:
    own_broker.start()
    address = own_broker.address
    run(address, "topic", "create", topic)
    reader = start("topic", "consume", topic, address=address)
    writer = start("topic", "produce", topic, address=address)
    writer.type("before\n")
    reader.shows("before")

    own_broker.kill()
    writer.type("during\n")
    own_broker.start()
    writer.type("after\n")

    reader.shows("before", "during", "after")
    assert writer.end() == (0, "")
    assert reader.end(signal.SIGINT) == (0, "")


def test_a_reader_that_goes_away_is_no_error(broker: BrokerProcess, topic: str) -> None:
    run(broker.address, "topic", "create", topic)
    lines = b"\n".join(b"%0100d" % number for number in range(10_000))
    run(broker.address, "topic", "produce", topic, stdin=lines)
    command = f"{sys.executable} -m headrace.cli.main topic consume {topic} -b {broker.address}"
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -1; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        check=False,
        timeout=180,
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, b"0" * 100, b"")


def test_a_terminal_shows_a_progress_bar(broker: BrokerProcess, topic: str, tmp_path: Path) -> None:
    run(broker.address, "topic", "create", topic)
    run(broker.address, "topic", "produce", topic, stdin=b"one\ntwo")
    terminal, end = pty.openpty()
    arguments: list[Any] = ["topic", "consume", topic, "-o", ":end", "-b", broker.address]
    with (tmp_path / "out").open("wb") as out:
        done = subprocess.run(
            [sys.executable, "-m", "headrace.cli.main", *arguments],
            stdout=out,
            stderr=end,
            check=False,
            timeout=180,
        )
    os.close(end)
    shown = os.read(terminal, 1 << 16).decode()
    os.close(terminal)
    assert done.returncode == 0
    assert "consuming" in shown
    assert (tmp_path / "out").read_bytes() == b"one\ntwo\n"
