"""`headrace up --brokers 2 --with kinesis` in a process of its own."""

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from headrace.process.die_with_parent import die_with_parent
from headrace.process.java import JavaMissing, find_java
from headrace.process.zookeeper import ZooKeeperMissing, zookeeper_jars
from headrace.testing.readiness import answers_kafka, free_port, wait_until
from testkit.peer.peer import require_peer
from testkit.process.command_line import run_headrace
from testkit.process.kinesis_client import create_stream, kinesis_client, read_stream

_KINESIS = re.compile(r"kinesis \| The Kinesis API is at (http://\S+)")

SECRET = "hush-4711"


def first_of_three_ports():
    """The middle of three free ports in a row: ZooKeeper takes the one below."""
    while True:
        port = free_port()
        try:
            for each in (port - 1, port + 1):
                socket.create_server(("127.0.0.1", each)).close()
        except OSError:
            continue
        return port


@pytest.fixture
def supervised(tmp_path):
    try:
        find_java()
        zookeeper_jars()
    except (ZooKeeperMissing, JavaMissing) as missing:
        require_peer(str(missing))
    port = first_of_three_ports()
    output = tmp_path / "output"
    config = tmp_path / "server.properties"
    config.write_text(f"ssl.key.password={SECRET}\n")
    with output.open("wb") as out:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "headrace.cli.main", "up", "--brokers", "2"),
                *("--data", str(tmp_path / "data"), "--listen", f"127.0.0.1:{port}"),
                *("--with", "kinesis", "-X", "kinesis.listeners=127.0.0.1:0"),
                *("--config", str(config)),
            ],
            stdout=out,
            stderr=subprocess.STDOUT,
            preexec_fn=die_with_parent,
        )
    try:
        wait_until(
            lambda: _KINESIS.search(output.read_text()) or process.poll() is not None,
            what="two brokers and the gateway",
            timeout_seconds=180,
        )
        yield process, port, output
    finally:
        process.kill()
        process.wait()


def assert_closed(zookeeper):
    """Another user of the machine reads no SCRAM keys there, and changes nothing."""
    stranger = KazooClient(zookeeper + "/headrace")
    stranger.start()
    try:
        assert sorted(stranger.get_children("/brokers")) == ["1", "2"]
        with pytest.raises(NoAuthError):
            stranger.get_children("/scram")
        with pytest.raises(NoAuthError):
            stranger.create("/topics/mine")
    finally:
        stranger.stop()
        stranger.close()


def test_a_killed_broker_is_started_again_and_one_signal_stops_all(supervised):
    process, port, output = supervised
    address = f"127.0.0.1:{port},127.0.0.1:{port + 1}"
    assert_closed(f"127.0.0.1:{port - 1}")
    children = subprocess.run(
        ["pgrep", "-P", str(process.pid), "-f", "broker-id 1"], capture_output=True, text=True
    )
    (pid,) = children.stdout.split()
    client = kinesis_client(_KINESIS.search(output.read_text())[1])
    create_stream(client, "clicks", shards=2)
    client.put_record(StreamName="clicks", Data=b"before", PartitionKey="k")
    assert SECRET not in Path(f"/proc/{pid}/cmdline").read_text()

    os.kill(int(pid), signal.SIGKILL)

    wait_until(lambda: "broker 1 ended with -9" in output.read_text(), what="the report of the end")
    wait_until(lambda: answers_kafka("127.0.0.1", port), what="the broker again")
    wait_until(
        lambda: run_headrace("cluster", "health", "-b", address).code == 0, what="good health"
    )
    client.put_record(StreamName="clicks", Data=b"after", PartitionKey="k")
    assert [each["Data"] for each in read_stream(client, "clicks")] == [b"before", b"after"]
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 0
    assert re.search(r"kinesis \| Stopped\.[\s\S]*broker 2 \| Stopped\.", output.read_text())
    assert output.read_text().endswith("Stopped.\n")
