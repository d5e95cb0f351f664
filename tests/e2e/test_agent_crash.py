"""kill -9 at random moments of every durable path: nothing lost, and duplicates within what is
promised. `HEADRACE_KILLS` says how often; a few times by default."""

import os
import socket
import threading
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from headrace.client.error import BrokerError
from headrace.client.reader import Reader
from headrace.testing.agent_process import AgentProcess
from headrace.testing.broker_process import BrokerProcess
from headrace.testing.readiness import free_port, wait_until

KILLS = int(os.environ.get("HEADRACE_KILLS", "2"))
SINK_BATCH = 100
SOURCE_BATCH = 50

TO_FILES = """\
a1.channels = c1
a1.sinks = k1
a1.channels.c1.type = file
a1.channels.c1.dataDirs = {folder}/channel
a1.channels.c1.minimumRequiredSpace = 0
a1.sinks.k1.type = file_roll
a1.sinks.k1.channel = c1
a1.sinks.k1.sink.directory = {folder}/out
"""


def written(folder: Path) -> Counter[bytes]:
    lines: Counter[bytes] = Counter()
    for path in (folder / "out").glob("*"):
        lines.update(path.read_bytes().splitlines())
    return lines


def doubled(lines: Counter[bytes]) -> int:
    return sum(lines.values()) - len(lines)


def test_lines_that_netcat_acknowledged_survive(tmp_path: Path) -> None:
    dice, port = Random(7), free_port()
    text = TO_FILES.format(folder=tmp_path) + (
        "a1.sources = r1\na1.sources.r1.type = netcat\na1.sources.r1.bind = 127.0.0.1\n"
        f"a1.sources.r1.port = {port}\na1.sources.r1.channels = c1\n"
    )
    acknowledged: list[bytes] = []
    agent = AgentProcess(tmp_path, text)
    for turn in range(KILLS):
        with agent:
            wait_until(lambda: _listens(port), what="the netcat source")
            killer = threading.Timer(dice.uniform(0.01, 0.4), agent.kill)
            killer.start()
            acknowledged += _send_until_hang_up(port, turn)
            killer.join()
    with agent:
        wait_until(lambda: not set(acknowledged) - set(written(tmp_path)), what="the rest")
        agent.stop()
    found = written(tmp_path)
    assert acknowledged, "the agent was killed before it took anything"
    assert doubled(found) <= KILLS * SINK_BATCH


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def _send_until_hang_up(port: int, turn: int) -> list[bytes]:
    """Lines that were answered with OK before the connection broke."""
    answered: list[bytes] = []
    number = 0
    try:
        with socket.create_connection(("127.0.0.1", port)) as peer, peer.makefile("rb") as answers:
            while True:
                lines = [b"%d-%d" % (turn, number + row) for row in range(20)]
                number += len(lines)
                peer.sendall(b"".join(line + b"\n" for line in lines))
                for line in lines:
                    if answers.readline() != b"OK\n":
                        return answered
                    answered.append(line)
    except OSError:
        return answered


def test_spooled_files_survive(tmp_path: Path) -> None:
    dice = Random(11)
    spool = tmp_path / "spool"
    spool.mkdir()
    text = TO_FILES.format(folder=tmp_path) + (
        f"a1.sources = r1\na1.sources.r1.type = spooldir\na1.sources.r1.spoolDir = {spool}\n"
        f"a1.sources.r1.batchSize = {SOURCE_BATCH}\na1.sources.r1.channels = c1\n"
    )
    expected = [b"%d-%d" % (file, row) for file in range(KILLS) for row in range(4000)]
    for file in range(KILLS):
        lines = expected[file * 4000 : (file + 1) * 4000]
        (spool / f"file-{file}").write_bytes(b"".join(line + b"\n" for line in lines))
    agent = AgentProcess(tmp_path, text)
    for _ in range(KILLS):
        with agent:
            threading.Event().wait(dice.uniform(0.01, 0.3))
    with agent:
        wait_until(lambda: set(written(tmp_path)) == set(expected), what="all lines")
        agent.stop()
    assert doubled(written(tmp_path)) <= KILLS * (SINK_BATCH + SOURCE_BATCH)


@pytest.fixture
def broker(tmp_path: Path) -> BrokerProcess:
    return BrokerProcess(tmp_path / "broker")


def test_tailed_lines_reach_a_topic_exactly_once(tmp_path: Path, broker: BrokerProcess) -> None:
    dice = Random(13)
    log = tmp_path / "logs" / "app.log"
    log.parent.mkdir()
    expected: list[bytes] = []
    with broker:
        text = (
            "a1.sources = r1\na1.channels = c1\na1.sinks = k1\n"
            "a1.sources.r1.type = TAILDIR\na1.sources.r1.channels = c1\n"
            f"a1.sources.r1.filegroups = f\na1.sources.r1.filegroups.f = {log.parent}/app.*\n"
            "a1.sources.r1.exactlyOnce = true\na1.channels.c1.type = memory\n"
            f"a1.sinks.k1.type = kafka\na1.sinks.k1.kafka.bootstrap.servers = {broker.address}\n"
            "a1.sinks.k1.kafka.topic = lines\na1.sinks.k1.kafka.transactional.id = crash\n"
            "a1.sinks.k1.channel = c1\n"
        )
        agent = AgentProcess(tmp_path, text)
        for turn in range(KILLS):
            new = [b"%d-%d" % (turn, row) for row in range(2000)]
            with log.open("ab") as file:
                file.writelines(line + b"\n" for line in new)
            expected += new
            with agent:
                threading.Event().wait(dice.uniform(0.05, 1.5))
            if turn % 2:
                log.rename(log.with_name(f"app.log.{turn}"))
        with agent:
            wait_until(lambda: len(_topic(broker)) >= len(expected), what="all lines")
            agent.stop()
        assert sorted(_topic(broker)) == sorted(expected)


def _topic(broker: BrokerProcess) -> list[bytes]:
    try:
        with Reader.of_topics(
            {"bootstrap.servers": broker.address}, "lines", read_committed=True
        ) as reader:
            found: list[bytes] = reader.read_all()["value"].to_pylist()
    except BrokerError:
        return []  # nobody has written yet
    return found
